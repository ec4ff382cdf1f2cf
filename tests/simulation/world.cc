#include "world.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "client.h"
#include "environment.h"
#include "failure.h"
#include "server_end.h"

namespace crossdock::simulation {
namespace {

constexpr std::size_t kTraceLines = 60;
constexpr int kPassesToRest = 20'000;

const Metadata& metadata() {
  static const Metadata made;
  return made;
}

Order some_order(Random& random) { return static_cast<Order>(random.below(3)); }

/// One consumer: its client, and the server's end of each of its connections.
struct Consumer {
  Books books;
  std::vector<std::unique_ptr<Wire>> wires;
  std::vector<std::unique_ptr<ServerEnd>> servers;
  std::unique_ptr<Client> client;
  bool gives_all_back = false;
  std::optional<std::uint64_t> lost_at;  // step
  std::size_t lost_wire = 0;
};

class World {
 public:
  World(std::uint64_t seed, bool tracing) : random_(seed), environment_{metadata()} {
    environment_.tracing = tracing;
    const std::uint32_t tables = 1 + random_.below(3);
    for (std::uint32_t i = 0; i < tables; ++i) {
      tables_.push_back(
          std::make_shared<const StreamPlan>(plan_table(static_cast<std::uint16_t>(i + 1), random_.fork())));
    }
    const std::size_t consumers = 1 + random_.below(5);
    for (std::size_t i = 0; i < consumers; ++i) add_consumer();
    steps_ = 100 + random_.below(1500);
    for (const auto& consumer : consumers_) {
      if (random_.one_in(4)) consumer->lost_at = random_.below(steps_);
      consumer->lost_wire = random_.below(consumer->wires.size());
    }
  }

  std::size_t consumers() const { return consumers_.size(); }
  std::uint64_t steps() const { return step_; }
  std::uint64_t digest() const { return environment_.digest; }
  void cut_first_at(std::uint64_t step) { consumers_.front()->lost_at = step; }

  void run() {
    for (; step_ < steps_; ++step_) {
      for (const auto& consumer : consumers_) {
        if (consumer->lost_at == step_) lose(*consumer);
      }
      turn_of(random_.below(actors_));
      environment_.now += random_.below(3);
    }
    run_until_idle();
    for (const auto& consumer : consumers_) {
      consumer->client->check_at_rest();
      if (consumer->client->content() && consumer->gives_all_back) {
        for (const auto& server : consumer->servers) server->check_nothing_is_out();
      }
    }
    for (const auto& consumer : consumers_) consumer->client->leave();
    run_until_idle();
    for (const auto& consumer : consumers_) {
      for (const auto& server : consumer->servers) {
        require(server->gone(), "a server holds on to a connection whose client has gone");
        server->check_nothing_is_out();
      }
    }
  }

  std::string last_lines() const {
    std::string text;
    const auto& lines = environment_.trace;
    for (std::size_t i = lines.size() - std::min(lines.size(), kTraceLines); i < lines.size(); ++i) {
      text += "\n  " + lines[i];
    }
    return text;
  }

 private:
  void add_consumer() {
    auto consumer = std::make_unique<Consumer>();
    consumer->books.consumer = consumers_.size();
    const bool ours = random_.one_in(2);
    Habits habits;
    habits.counts = ours || random_.one_in(2);
    habits.frees = !random_.one_in(8);
    if (random_.one_in(8)) {
      habits.pace = Habits::Pace::kStuck;
      habits.stuck_after = random_.below(6);
    } else if (random_.one_in(3)) {
      habits.pace = Habits::Pace::kSlow;
    }
    habits.streams = 1 + random_.below(3);
    habits.may_cancel = ours && random_.one_in(3);
    habits.may_leave = random_.one_in(6);
    if (random_.one_in(5)) habits.offence = static_cast<Offence>(1 + random_.below(kOffences - 1));
    if (ours && random_.one_in(2)) {
      habits.reads = Reads::Options{random_.below(3000), 1 + random_.below(6), 1 + random_.below(60),
                                    random_.one_in(6) ? 1 + random_.below(20) : 0};
      habits.frees = true;  // it holds no memory for its own sake
    }
    const bool two = random_.one_in(4) && !habits.may_cancel;

    const Order to_client = some_order(random_);
    const Order to_server = some_order(random_);
    habits.reuses_after_error = to_client == Order::kInOrder && !two;
    const std::uint32_t delay = random_.below(40);

    ServerEnd::Options options;
    options.peer = {ours, ours, ours};
    options.honest = habits.offence == Offence::kNone;
    options.window = 2 + random_.below(15);
    options.live_blocks = 1 + random_.below(4);
    options.waits_at_limit = habits.counts && habits.frees && habits.pace != Habits::Pace::kStuck && random_.one_in(3);
    options.live_region = static_cast<std::uint16_t>(100 * (consumers_.size() + 1));

    const std::uint32_t who_fails = random_.below(3);
    std::vector<Wire*> wires;
    for (std::size_t i = 0; i < (two ? 2 : 1); ++i) {
      consumer->wires.push_back(
          std::make_unique<Wire>(Wire{Link(to_client, delay, random_.fork()), Link(to_server, delay, random_.fork())}));
      wires.push_back(consumer->wires.back().get());
      options.role = !two ? Role::kBoth : i == 0 ? Role::kMetadata : Role::kData;
      options.fails = !two || who_fails != i;  // 2: both do
      consumer->servers.push_back(
          std::make_unique<ServerEnd>(options, environment_, *wires.back(), consumer->books, random_.fork()));
    }
    consumer->gives_all_back = habits.frees;
    const auto choose = [this, two](Random& random) -> std::shared_ptr<const StreamPlan> {
      // A live stream has one pace: it needs one connection.
      if (!two && random.one_in(3)) return std::make_shared<const StreamPlan>(plan_live(random.fork()));
      return tables_[random.below(tables_.size())];
    };
    const std::size_t self = consumers_.size();
    const auto foreign = [this, self]() -> std::uint64_t {
      for (std::size_t i = 0; i < consumers_.size(); ++i) {
        if (i == self) continue;
        if (const std::uint64_t address = consumers_[i]->servers.back()->ledger().any_address()) return address;
      }
      return 0;
    };
    consumer->client = std::make_unique<Client>(habits, environment_, std::move(wires), consumer->books, random_.fork(),
                                                choose, foreign);
    actors_ += 1 + consumer->servers.size();
    consumers_.push_back(std::move(consumer));
  }

  void lose(Consumer& consumer) {
    environment_.note(consumer.books.consumer, [] { return "is cut off by the network"; });
    consumer.wires[consumer.lost_wire]->cut(environment_.now);
  }

  bool turn_of(std::size_t actor) {
    for (const auto& consumer : consumers_) {
      if (actor == 0) return consumer->client->turn();
      if (actor <= consumer->servers.size()) return consumer->servers[actor - 1]->turn();
      actor -= 1 + consumer->servers.size();
    }
    return false;
  }

  /// Until nobody has anything to do and nothing is on its way.
  void run_until_idle() {
    environment_.draining = true;
    for (int pass = 0; pass < kPassesToRest; ++pass) {
      bool progress = false;
      for (std::size_t actor = 0; actor < actors_; ++actor, ++step_) progress |= turn_of(actor);
      if (progress) continue;
      std::optional<std::uint64_t> next;
      for (const auto& consumer : consumers_) {
        if (const auto end = consumer->client->next_read()) next = std::min(next.value_or(*end), *end);
        for (const auto& wire : consumer->wires) {
          for (const Link* link : {&wire->to_client, &wire->to_server}) {
            const auto arrival = link->next_arrival();
            if (arrival && *arrival > environment_.now) next = std::min(next.value_or(*arrival), *arrival);
          }
        }
      }
      if (!next) return;
      environment_.now = *next;
    }
    throw Failure("the world never comes to rest");
  }

  Random random_;
  Environment environment_;
  std::vector<std::shared_ptr<const StreamPlan>> tables_;
  std::vector<std::unique_ptr<Consumer>> consumers_;
  std::size_t actors_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t step_ = 0;
};

/// Runs it; what went wrong, or nothing.
std::string failure_of(World& world, std::optional<std::uint64_t> cut_at) {
  try {
    if (cut_at) world.cut_first_at(*cut_at);
    world.run();
  } catch (const Failure& failure) {
    return failure.what();
  } catch (const std::exception& other) {
    return std::string("an exception that nobody expects: ") + other.what();
  }
  return {};
}

}  // namespace

Outcome run_world(std::uint64_t seed, std::optional<std::uint64_t> cut_at) {
  World world(seed, false);
  Outcome run;
  run.failure = failure_of(world, cut_at);
  run.steps = world.steps();
  run.digest = world.digest();
  run.consumers = world.consumers();
  if (!run.failure.empty()) {
    World again(seed, true);  // the same run, written down this time
    failure_of(again, cut_at);
    run.failure += again.last_lines();
  }
  return run;
}

}  // namespace crossdock::simulation
