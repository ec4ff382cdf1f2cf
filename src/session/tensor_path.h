#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The JSON in the metadata of tensors: lists of strings, or of whole numbers, and nothing else.
namespace crossdock::session {

/// Maximum number of keys in a tensor's path.
inline constexpr std::size_t kMaxTensorPath = 64;

/// Writes a path as a JSON list of strings. Throws InvalidArgumentError for an empty path, for one of more than
/// kMaxTensorPath keys, and for a key that isn't UTF-8.
std::string write_path(std::span<const std::string> path);
/// Reads such a list. Throws InvalidDataError, which begins with `where`, for other JSON, for a text that isn't UTF-8,
/// and for paths that write_path() refuses.
std::vector<std::string> read_path(std::string_view json, const std::string& where);

/// Throws InvalidArgumentError if two paths are equal, or if one is the beginning of another: a name can't stand for a
/// tensor and for a dictionary. Sorts `paths`.
void check_paths(std::vector<std::span<const std::string>>* paths);

/// Reads a shape, a JSON list of whole numbers. Returns false if it isn't one, or has more of them than a tensor has
/// dimensions.
bool read_shape(std::string_view json, std::vector<std::int64_t>* shape);

}  // namespace crossdock::session
