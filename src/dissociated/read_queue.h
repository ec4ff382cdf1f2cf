#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>

namespace crossdock::dissociated {

/// The bodies of one stream that are being read from the server's memory, and the bodies after them. Reads overlap and
/// end in any order; bodies come out in the order of the stream. Pure: a Body does the reading. Use it from one thread
/// at a time.
///
/// Every body that follows a queued one must be queued as well, so that no batch overtakes its dictionary.
class ReadQueue {
 public:
  /// A body in the queue, and the lease of the server's memory that it is read from. One that needs no read is done at
  /// once and has no lease.
  class Body {
   public:
    virtual ~Body() = default;
    /// Begins the read. Returns false if too much is under way: then it is called again later. May throw.
    virtual bool begin() = 0;
    /// Returns whether all bytes are there; not called again after true. Throws the error that ended the read.
    virtual bool done() = 0;
    /// Ends the lease: all bytes are there, or none will be read. Called once at most.
    virtual void release() noexcept = 0;
    /// Called instead of release() if the body is dropped in the middle of its read. The lease must last as long as the
    /// connection.
    virtual void abandon() noexcept = 0;
  };

  /// `read_ahead`: limit of the bytes in the queue whose reads were begun. One body may always be read.
  explicit ReadQueue(std::uint64_t read_ahead) : read_ahead_(read_ahead) {}
  ~ReadQueue() { drop(); }
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  bool empty() const noexcept { return bodies_.empty(); }
  /// Whether another message of the stream may be taken.
  bool has_room() const noexcept {
    if (ending_ != Ending::kNone) return false;
    return bodies_.empty() || (n_begun_ == bodies_.size() && bytes_begun_ < read_ahead_);
  }
  /// Appends a body, and begins its read if that is within the limit. `bytes`: the memory that it holds on this side.
  void push(std::unique_ptr<Body> body, std::uint64_t bytes);

  /// kEnd: no body follows; those in the queue are still read. kError: only bodies at the front that are there already
  /// still come out, because the rest of the stream is lost anyway.
  enum class Ending : std::uint8_t { kNone, kEnd, kError };
  /// Tells the queue that the stream's end was taken.
  void end(Ending ending) noexcept { ending_ = ending; }

  enum class Due : std::uint8_t { kNothing, kBody, kEnd, kError };
  /// Begins the reads for which there is room, releases the leases of all bodies that are there, and says what comes
  /// next: kBody takes the first body out; kEnd and kError as given to end(). Throws the error of the first body's read
  /// unless kError is due; a failed read behind other bodies waits for its turn.
  Due next(std::unique_ptr<Body>* body);

  /// Drops all bodies. Returns false if a read was under way: it may go on after this call, so the connection can't be
  /// used for another stream.
  bool drop() noexcept;

 private:
  struct Entry {
    std::unique_ptr<Body> body;
    std::uint64_t bytes = 0;
    bool there = false;
    std::exception_ptr failure{};
  };
  void begin_reads();
  void poll_reads();

  std::uint64_t read_ahead_;
  std::deque<Entry> bodies_;
  std::size_t n_begun_ = 0;  // those at the front
  std::uint64_t bytes_begun_ = 0;
  Ending ending_ = Ending::kNone;
};

}  // namespace crossdock::dissociated
