#include "core/blocked_signals.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <thread>

namespace crossdock {
namespace {

bool takes(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 0;
}

TEST(BlockedSignals, AreThoseOfTheThreadsThatItStarts) {
  ASSERT_TRUE(takes(SIGINT));
  bool thread_takes = true;
  std::thread started;
  {
    const BlockedSignals blocked;
    EXPECT_FALSE(takes(SIGINT));
    started = std::thread([&] { thread_takes = takes(SIGINT) || takes(SIGTERM); });
  }
  started.join();
  EXPECT_FALSE(thread_takes);
  EXPECT_TRUE(takes(SIGINT)) << "ours are as before";
}

TEST(BlockedSignals, WhatWasBlockedBeforeStaysSo) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGUSR1);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &one, &before);
  { const BlockedSignals blocked; }
  EXPECT_FALSE(takes(SIGUSR1));
  EXPECT_TRUE(takes(SIGINT));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace crossdock
