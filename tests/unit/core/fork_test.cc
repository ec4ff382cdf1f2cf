#include "core/fork.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "crossdock/core/error.h"

namespace crossdock {
namespace {

/// The exit status of a child that runs `work`.
template <typename Work>
int exit_of_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(ForkGuard, HoldsInTheProcessThatMadeIt) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.in_child());
  EXPECT_NO_THROW(guard.check("this Server"));
}

TEST(ForkGuard, KnowsThatItIsInAChild) {
  const ForkGuard guard;
  EXPECT_EQ(exit_of_child([&] {
              if (!guard.in_child()) return 1;
              try {
                guard.check("this Server");
              } catch (const ForkError& error) {
                return std::string(error.what()).find("this Server") != std::string::npos ? 42 : 2;
              }
              return 3;
            }),
            42);
  EXPECT_FALSE(guard.in_child());
}

TEST(ForkGuard, AChildsOwnHoldsThereAndNotInAGrandchild) {
  EXPECT_EQ(exit_of_child([] {
              const ForkGuard guard;
              if (guard.in_child()) return 1;
              return exit_of_child([&] { return guard.in_child() ? 42 : 2; });
            }),
            42);
}

TEST(ForkGuard, ACopyBelongsToTheSameProcess) {
  const ForkGuard guard;
  EXPECT_EQ(exit_of_child([&] {
              const ForkGuard copy = guard;
              return copy.in_child() ? 42 : 1;
            }),
            42);
}

}  // namespace
}  // namespace crossdock
