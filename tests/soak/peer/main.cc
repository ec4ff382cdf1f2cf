#include <cstring>
#include <exception>
#include <iostream>

#include "soak/peer/roles.h"

/// What `./dev soak` starts; tests/soak says how.
int main(int argc, char** argv) {
  using crossdock::soak::Drive;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto drive = [&](std::size_t at) {
    return Drive{std::stoull(words.at(at)), std::chrono::milliseconds(std::stoll(words.at(at + 1)))};
  };
  try {
    if (words.size() >= 2 && words[0] == "serve") {
      const char* const token = std::getenv("CROSSDOCK_TOKEN");
      return crossdock::soak::serve({words.begin() + 1, words.end()}, token == nullptr ? "" : token);
    }
    if (words.size() == 4 && words[0] == "kill-clients") return crossdock::soak::kill_clients(words[1], drive(2));
    if (words.size() == 5 && words[0] == "kill-servers") {
      return crossdock::soak::kill_servers(words[1], words[2], drive(3));
    }
  } catch (const std::exception& error) {
    std::cerr << "soak_peer: " << error.what() << '\n';
    return 1;
  }
  std::cerr << "usage: soak_peer serve URI...\n"
               "       soak_peer kill-clients URI SEED MILLISECONDS\n"
               "       soak_peer kill-servers URI FOLDER SEED MILLISECONDS\n";
  return 2;
}
