#include "crossdock/ipc/file_reader.h"

#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "ipc/compression.h"
#include "ipc/container.h"
#include "ipc/dictionary_store.h"
#include "ipc/internal/output_memory.h"
#include "ipc/internal/swap_bytes.h"
#include "ipc/realign.h"

namespace crossdock::ipc {

struct FileReader::Impl {
  Impl(FileBytes given, FileReaderOptions options)
      : file(std::move(given)),
        limits(options.limits),
        validation(options.validation),
        decompressor(options.limits, std::move(options.parallel)),
        realigner(options.limits) {
    if (!file.metadata) file.metadata = std::make_shared<const MemorySource>(file.bytes);
    container = read_container(*file.metadata, file.name, limits);
    for (std::size_t i = 0; i < container.messages.size(); ++i) {
      if (container.messages[i].kind == MessageKind::kRecordBatch) batches.push_back(i);
    }
  }

  std::optional<array::RecordBatch> next() {
    if (container.has_footer) {
      if (position == batches.size()) return std::nullopt;
      return batch(position++);
    }
    while (position < container.messages.size()) {
      const ContainerMessage& place = container.messages[position++];
      if (place.kind == MessageKind::kRecordBatch) return read(place, container.schema);
      put_dictionary(place);
    }
    return std::nullopt;
  }

  array::RecordBatch batch(std::size_t index) {
    if (!dictionaries_read) read_dictionaries();
    return read(container.messages[batches[index]], container.schema);
  }

  void read_dictionaries() {
    for (const ContainerMessage& place : container.messages) {
      if (place.kind == MessageKind::kDictionaryBatch) put_dictionary(place);
    }
    dictionaries_read = true;
  }

  void put_dictionary(const ContainerMessage& place) {
    set_where(place);
    const Message message = read_message(*file.metadata, place, where.c_str(), limits, &metadata);
    const std::int64_t id = message.dictionary_id();
    const std::shared_ptr<const array::Schema> values = container.schema->find_dictionary(id);
    if (!values) throw FileChangedError(where + ": the file changed while it was read");
    array::RecordBatch read = decode(message, place, values);
    try {
      dictionaries.put(id, std::move(read), header.is_delta);
    } catch (const InvalidDataError& error) {
      throw InvalidDataError(where + ": " + error.what());
    }
  }

  array::RecordBatch read(const ContainerMessage& place, const std::shared_ptr<const array::Schema>& schema) {
    set_where(place);
    return decode(read_message(*file.metadata, place, where.c_str(), limits, &metadata), place, schema);
  }

  array::RecordBatch decode(const Message& message, const ContainerMessage& place,
                            const std::shared_ptr<const array::Schema>& schema) {
    if (file.check_unchanged) file.check_unchanged();
    message.batch(*schema, &header);
    const ByteSpan body =
        file.bytes.subspan(static_cast<std::size_t>(place.body_offset), static_cast<std::size_t>(place.body_length));
    std::shared_ptr<const void> owner = file.owner;
    if (header.codec == Codec::kNone) {
      view(body);
      owner = realigner.realign(*schema, header, std::move(owner), where.c_str(), &views);
    } else {
      owner = decompressor.decompress(*schema, body, std::move(owner), where.c_str(), &header, &views);
    }
    if (container.endianness == Endianness::kBig) {
      owner = swap_bytes(*schema, header, limits, where.c_str(), &memory, std::move(owner), &views);
    }
    // The copied bytes may be partly those of the old file and partly those of a new one.
    if (owner != file.owner && file.check_unchanged) file.check_unchanged();
    array::RecordBatch batch =
        assemble(schema, header, std::exchange(views, {}), dictionaries.for_schema(*schema), std::move(owner));
    try {
      if (validation == array::Validation::kFull) {
        // Its dictionaries were checked when they were read.
        array::check_full(batch, array::Dictionaries::kTrust);
      } else {
        array::check_structure(batch);
      }
    } catch (const InvalidDataError& error) {
      throw InvalidDataError(where + ": " + error.what());
    }
    return batch;
  }

  void view(ByteSpan body) {
    views.resize(header.buffers.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      const BufferRange& range = header.buffers[i];
      views[i] = range.length == 0 ? array::BufferView{} : array::BufferView{body.data() + range.offset, range.length};
    }
  }

  void set_where(const ContainerMessage& place) {
    where = "the message at byte ";
    where += std::to_string(place.metadata_offset);
    where += " of ";
    where += file.name;
  }

  FileBytes file;
  Limits limits;
  array::Validation validation;
  Container container;
  std::vector<std::size_t> batches;  // index of each batch in the messages
  Decompressor decompressor;
  Realigner realigner;
  OutputMemory memory;
  DictionaryStore dictionaries{limits};  // `limits` is declared before it
  bool dictionaries_read = false;
  std::size_t position = 0;  // index in the batches of a file, or the messages of a stream file

  std::exception_ptr failure;  // the permanent error of next()

  // Kept between batches to reuse their memory:
  std::string where;
  std::vector<std::uint64_t> metadata;
  BatchHeader header;
  std::vector<array::BufferView> views;
};

FileReader::FileReader(FileBytes file, FileReaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(file), std::move(options))) {}
FileReader::~FileReader() = default;

const std::shared_ptr<const array::Schema>& FileReader::schema() const { return impl_->container.schema; }

std::optional<array::RecordBatch> FileReader::next() {
  if (impl_->failure) std::rethrow_exception(impl_->failure);
  try {
    return impl_->next();
  } catch (...) {
    impl_->failure = std::current_exception();
    throw;
  }
}

bool FileReader::has_footer() const noexcept { return impl_->container.has_footer; }
std::int64_t FileReader::num_batches() const noexcept { return static_cast<std::int64_t>(impl_->batches.size()); }
std::int64_t FileReader::num_rows() const noexcept { return impl_->container.num_rows; }

const array::Metadata& FileReader::custom_metadata() const noexcept { return impl_->container.custom_metadata; }

array::RecordBatch FileReader::batch(std::int64_t index) {
  if (!has_footer()) {
    throw UnsupportedError(impl_->file.name +
                           " is a stream file: its batches can only be read in order; write it in the file form to "
                           "read batches by number");
  }
  if (index < 0 || index >= num_batches()) {
    throw InvalidArgumentError("there is no batch " + std::to_string(index) + ": " + impl_->file.name + " has " +
                               std::to_string(num_batches()) + ", counted from 0");
  }
  return impl_->batch(static_cast<std::size_t>(index));
}

}  // namespace crossdock::ipc
