// RocksDB's file system with every file of a store encrypted.
//
// It translates: places in plain files become places in sealed ones, and bytes go through Rust, which seals and opens them
// (quarry_seal::engine_file). Input and output are RocksDB's own, so that errors, preallocation and pacing are as without it.
// No cryptography happens here.
//
// Tables (`*.sst`) are of blocks: they are written once and read anywhere. All other files are of frames: they are appended to,
// synced, and read from the beginning, and no frame is written twice. Nothing is mapped or read past the system's cache.
//
// RocksDB's log for people (`LOG`) is not written: its lines may name keys.

#include "sealed_env.h"

#include <algorithm>
#include <cstdarg>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace {

using namespace ROCKSDB_NAMESPACE;

constexpr size_t kStepBytes = 64 << 10;

// As RocksDB's C interface declares it (db/c.cc); `rocksdb_env_destroy` takes it back.
struct EnvOfC {
  Env* rep;
  bool is_default;
};

// The key of a store and the calls that use it.
struct Seals {
  void* key;
  QuarrySealCalls calls;

  Seals(void* key_given, const QuarrySealCalls& calls_given) : key(key_given), calls(calls_given) {}
  ~Seals() { calls.drop_key(key); }
  Seals(const Seals&) = delete;
  Seals& operator=(const Seals&) = delete;

  // Where the block begins that holds this place of the plain file.
  uint64_t place_of_block(uint64_t plain) const {
    return calls.header_bytes + plain / calls.block_bytes * calls.sealed_block_bytes;
  }

  // The length of the plain file of blocks.
  uint64_t plain_bytes(uint64_t sealed) const {
    if (sealed <= calls.header_bytes) return 0;
    uint64_t blocks = (sealed - calls.header_bytes) / calls.sealed_block_bytes;
    uint64_t rest = (sealed - calls.header_bytes) % calls.sealed_block_bytes;
    uint64_t added = calls.sealed_block_bytes - calls.block_bytes;
    return blocks * calls.block_bytes + (rest > added ? rest - added : 0);
  }
};

using SealsPtr = std::shared_ptr<const Seals>;

IOStatus status_of(int32_t outcome, const std::string& name) {
  switch (outcome) {
    case QUARRY_SEAL_DONE:
      return IOStatus::OK();
    case QUARRY_SEAL_DAMAGED:
      return IOStatus::Corruption("encrypted file is damaged", name);
    default:
      return IOStatus::IOError("cannot encrypt", name);
  }
}

bool is_of_blocks(const std::string& name) {
  const std::string table = ".sst";
  return name.size() >= table.size() && name.compare(name.size() - table.size(), table.size(), table) == 0;
}

class SealedWritableFile : public FSWritableFileOwnerWrapper {
 public:
  SealedWritableFile(std::unique_ptr<FSWritableFile>&& file, SealsPtr seals, void* writer, std::string name,
                     bool of_blocks)
      : FSWritableFileOwnerWrapper(std::move(file)),
        seals_(std::move(seals)),
        writer_(writer),
        name_(std::move(name)),
        of_blocks_(of_blocks) {}

  ~SealedWritableFile() override { seals_->calls.drop_writer(writer_); }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    QuarrySealBytes out{nullptr, 0};
    IOStatus status = status_of(seals_->calls.append(writer_, data.data(), data.size(), &out), name_);
    if (!status.ok()) return status;
    plain_bytes_ += data.size();
    return write(out, options, dbg);
  }

  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&,
                  IODebugContext* dbg) override {
    return Append(data, options, dbg);
  }

  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("PositionedAppend to an encrypted file");
  }

  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, const DataVerificationInfo&,
                            IODebugContext*) override {
    return IOStatus::NotSupported("PositionedAppend to an encrypted file");
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    if (size == plain_bytes_) return IOStatus::OK();
    return IOStatus::NotSupported("Truncate of an encrypted file");
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus status = end(options, dbg);
    return status.ok() ? FSWritableFileOwnerWrapper::Sync(options, dbg) : status;
  }

  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus status = end(options, dbg);
    return status.ok() ? FSWritableFileOwnerWrapper::Fsync(options, dbg) : status;
  }

  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus status = end(options, dbg);
    // The descriptor goes whatever became of the end.
    IOStatus closed = FSWritableFileOwnerWrapper::Close(options, dbg);
    return status.ok() ? closed : status;
  }

  // A sync may write the end of the file.
  bool IsSyncThreadSafe() const override { return false; }

  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return plain_bytes_; }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

  IOStatus RangeSync(uint64_t offset, uint64_t nbytes, const IOOptions& options, IODebugContext* dbg) override {
    if (!of_blocks_) return IOStatus::OK();
    uint64_t from = seals_->place_of_block(offset);
    uint64_t to = seals_->place_of_block(offset + nbytes);
    return FSWritableFileOwnerWrapper::RangeSync(from, to - from, options, dbg);
  }

  void PrepareWrite(size_t offset, size_t len, const IOOptions& options, IODebugContext* dbg) override {
    uint64_t from = seals_->place_of_block(offset);
    uint64_t to = seals_->place_of_block(offset + len) + seals_->calls.sealed_block_bytes;
    FSWritableFileOwnerWrapper::PrepareWrite(from, to - from, options, dbg);
  }

  IOStatus Allocate(uint64_t offset, uint64_t len, const IOOptions& options, IODebugContext* dbg) override {
    uint64_t from = seals_->place_of_block(offset);
    uint64_t to = seals_->place_of_block(offset + len) + seals_->calls.sealed_block_bytes;
    return FSWritableFileOwnerWrapper::Allocate(from, to - from, options, dbg);
  }

 private:
  // Writes what makes no whole block yet.
  IOStatus end(const IOOptions& options, IODebugContext* dbg) {
    QuarrySealBytes out{nullptr, 0};
    IOStatus status = status_of(seals_->calls.end(writer_, &out), name_);
    return status.ok() ? write(out, options, dbg) : status;
  }

  IOStatus write(const QuarrySealBytes& out, const IOOptions& options, IODebugContext* dbg) {
    if (out.size == 0) return IOStatus::OK();
    return FSWritableFileOwnerWrapper::Append(Slice(out.data, out.size), options, dbg);
  }

  SealsPtr seals_;
  void* writer_;
  std::string name_;
  bool of_blocks_;
  uint64_t plain_bytes_ = 0;
};

class SealedSequentialFile : public FSSequentialFile {
 public:
  SealedSequentialFile(std::unique_ptr<FSSequentialFile>&& file, SealsPtr seals, std::string name)
      : file_(std::move(file)),
        seals_(std::move(seals)),
        reader_(seals_->calls.new_reader(seals_->key)),
        name_(std::move(name)),
        step_(new char[kStepBytes]) {}

  ~SealedSequentialFile() override { seals_->calls.drop_reader(reader_); }

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) override {
    size_t filled = 0;
    *result = Slice(scratch, 0);
    while (filled < n) {
      size_t taken = 0;
      IOStatus status = status_of(seals_->calls.take(reader_, scratch + filled, n - filled, &taken), name_);
      if (!status.ok()) return status;
      filled += taken;
      if (filled == n || is_over_) break;
      Slice read;
      status = file_->Read(kStepBytes, options, &read, step_.get(), dbg);
      if (!status.ok()) return status;
      is_over_ = read.empty();
      seals_->calls.feed(reader_, read.data(), read.size());
    }
    *result = Slice(scratch, filled);
    return IOStatus::OK();
  }

  IOStatus Skip(uint64_t n) override {
    std::unique_ptr<char[]> skipped(new char[kStepBytes]);
    while (n > 0) {
      Slice read;
      IOStatus status = Read(std::min<uint64_t>(n, kStepBytes), IOOptions(), &read, skipped.get(), nullptr);
      if (!status.ok() || read.empty()) return status;
      n -= read.size();
    }
    return IOStatus::OK();
  }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  std::unique_ptr<FSSequentialFile> file_;
  SealsPtr seals_;
  void* reader_;
  std::string name_;
  std::unique_ptr<char[]> step_;
  bool is_over_ = false;
};

class SealedRandomAccessFile : public FSRandomAccessFile {
 public:
  SealedRandomAccessFile(std::unique_ptr<FSRandomAccessFile>&& file, SealsPtr seals, void* blocks, std::string name)
      : file_(std::move(file)), seals_(std::move(seals)), blocks_(blocks), name_(std::move(name)) {}

  ~SealedRandomAccessFile() override { seals_->calls.drop_blocks(blocks_); }

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    *result = Slice(scratch, 0);
    if (n == 0) return IOStatus::OK();
    uint64_t from = seals_->place_of_block(offset);
    uint64_t to = seals_->place_of_block(offset + n - 1) + seals_->calls.sealed_block_bytes;
    size_t size = to - from;
    std::unique_ptr<char[]> sealed(new char[size]);
    Slice read;
    IOStatus status = file_->Read(from, size, options, &read, sealed.get(), dbg);
    if (!status.ok()) return status;
    if (read.data() != sealed.get()) std::copy_n(read.data(), read.size(), sealed.get());
    uint64_t block_bytes = seals_->calls.block_bytes;
    size_t copied = 0;
    status = status_of(seals_->calls.read_blocks(blocks_, offset / block_bytes, sealed.get(), read.size(),
                                                 offset % block_bytes, scratch, n, &copied),
                       name_);
    if (status.ok()) *result = Slice(scratch, copied);
    return status;
  }

  size_t GetUniqueId(char* id, size_t max_size) const override { return file_->GetUniqueId(id, max_size); }

  void Hint(AccessPattern pattern) override { file_->Hint(pattern); }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

  Temperature GetTemperature() const override { return file_->GetTemperature(); }

 private:
  std::unique_ptr<FSRandomAccessFile> file_;
  SealsPtr seals_;
  void* blocks_;
  std::string name_;
};

// A file of frames that is to be read at any place: RocksDB opens `CURRENT` so, to see whether it can be.
class PlainCopy : public FSRandomAccessFile {
 public:
  explicit PlainCopy(std::string plain) : plain_(std::move(plain)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    uint64_t from = std::min<uint64_t>(offset, plain_.size());
    size_t size = std::min<uint64_t>(n, plain_.size() - from);
    std::copy_n(plain_.data() + from, size, scratch);
    *result = Slice(scratch, size);
    return IOStatus::OK();
  }

 private:
  std::string plain_;
};

// RocksDB does not open a store for which no log can be made, nor one whose log does not tell its length.
class SilentLogger : public Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
  size_t GetLogFileSize() const override { return 0; }
};

class SealedFileSystem : public FileSystemWrapper {
 public:
  SealedFileSystem(const std::shared_ptr<FileSystem>& base, SealsPtr seals)
      : FileSystemWrapper(base), seals_(std::move(seals)) {}

  const char* Name() const override { return "quarry-sealed"; }

  IOStatus NewSequentialFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* result, IODebugContext* dbg) override {
    std::unique_ptr<FSSequentialFile> file;
    IOStatus status = target_->NewSequentialFile(name, plain_options(options), &file, dbg);
    if (status.ok()) result->reset(new SealedSequentialFile(std::move(file), seals_, name));
    return status;
  }

  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext* dbg) override {
    if (!is_of_blocks(name)) {
      std::string plain;
      IOStatus read = read_through(name, options, dbg, [&](const Slice& part) { plain.append(part.data(), part.size()); });
      if (read.ok()) result->reset(new PlainCopy(std::move(plain)));
      return read;
    }
    std::unique_ptr<FSRandomAccessFile> file;
    IOStatus status = target_->NewRandomAccessFile(name, plain_options(options), &file, dbg);
    if (!status.ok()) return status;
    std::string header(seals_->calls.header_bytes, '\0');
    Slice read;
    status = file->Read(0, header.size(), options.io_options, &read, header.data(), dbg);
    if (!status.ok()) return status;
    void* blocks = seals_->calls.new_blocks(seals_->key, read.data(), read.size());
    if (blocks == nullptr) return status_of(QUARRY_SEAL_DAMAGED, name);
    result->reset(new SealedRandomAccessFile(std::move(file), seals_, blocks, name));
    return status;
  }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result, IODebugContext* dbg) override {
    std::unique_ptr<FSWritableFile> file;
    IOStatus status = target_->NewWritableFile(name, plain_options(options), &file, dbg);
    if (!status.ok()) return status;
    QuarrySealBytes header{nullptr, 0};
    bool of_blocks = is_of_blocks(name);
    void* writer = seals_->calls.new_writer(seals_->key, of_blocks, &header);
    if (writer == nullptr) return status_of(QUARRY_SEAL_FAILED, name);
    status = file->Append(Slice(header.data, header.size), options.io_options, dbg);
    auto sealed = std::make_unique<SealedWritableFile>(std::move(file), seals_, writer, name, of_blocks);
    if (status.ok()) *result = std::move(sealed);
    return status;
  }

  IOStatus ReopenWritableFile(const std::string&, const FileOptions&, std::unique_ptr<FSWritableFile>*,
                              IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not opened again to be written");
  }

  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&,
                             std::unique_ptr<FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not used again");
  }

  IOStatus NewRandomRWFile(const std::string&, const FileOptions&, std::unique_ptr<FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not written at any place");
  }

  IOStatus NewMemoryMappedFileBuffer(const std::string&, std::unique_ptr<MemoryMappedFileBuffer>*) override {
    return IOStatus::NotSupported("an encrypted file is not mapped");
  }

  IOStatus Truncate(const std::string&, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not cut");
  }

  // Files of frames are read to know it: RocksDB asks for those of its small ones only.
  IOStatus GetFileSize(const std::string& name, const IOOptions& options, uint64_t* size,
                       IODebugContext* dbg) override {
    uint64_t sealed = 0;
    IOStatus status = target_->GetFileSize(name, options, &sealed, dbg);
    *size = sealed;
    if (!status.ok() || sealed == 0) return status;
    if (is_of_blocks(name)) {
      *size = seals_->plain_bytes(sealed);
      return status;
    }
    *size = 0;
    return read_through(name, FileOptions(), dbg, [&](const Slice& part) { *size += part.size(); });
  }

  // Of what else lies in the directory the length is the file's.
  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<FileAttributes>* result, IODebugContext* dbg) override {
    IOStatus status = target_->GetChildrenFileAttributes(dir, options, result, dbg);
    if (!status.ok()) return status;
    for (FileAttributes& child : *result) {
      uint64_t size = 0;
      if (GetFileSize(dir + "/" + child.name, options, &size, dbg).ok()) child.size_bytes = size;
    }
    return status;
  }

  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<Logger>* result, IODebugContext*) override {
    *result = std::make_shared<SilentLogger>();
    return IOStatus::OK();
  }

  void SupportedOps(int64_t& supported_ops) override { supported_ops = 0; }

 private:
  // Hands over the plain bytes of a file, part by part.
  template <typename Take>
  IOStatus read_through(const std::string& name, const FileOptions& options, IODebugContext* dbg, Take take) {
    std::unique_ptr<FSSequentialFile> file;
    IOStatus status = NewSequentialFile(name, options, &file, dbg);
    std::unique_ptr<char[]> step(new char[kStepBytes]);
    while (status.ok()) {
      Slice read;
      status = file->Read(kStepBytes, options.io_options, &read, step.get(), dbg);
      if (!status.ok() || read.empty()) break;
      take(read);
    }
    return status;
  }

  static FileOptions plain_options(const FileOptions& options) {
    FileOptions plain = options;
    plain.use_mmap_reads = false;
    plain.use_mmap_writes = false;
    plain.use_direct_reads = false;
    plain.use_direct_writes = false;
    return plain;
  }

  SealsPtr seals_;
};

}  // namespace

extern "C" rocksdb_env_t* quarry_sealed_env_create(void* key, const QuarrySealCalls* calls) {
  auto seals = std::make_shared<const Seals>(key, *calls);
  auto files = std::make_shared<SealedFileSystem>(FileSystem::Default(), std::move(seals));
  auto* env = new EnvOfC{NewCompositeEnv(files).release(), false};
  return reinterpret_cast<rocksdb_env_t*>(env);
}
