// The calls between the file system of an encrypted store and the Rust code that seals and opens bytes.
#pragma once

#include <cstddef>
#include <cstdint>

struct rocksdb_env_t;

extern "C" {

// What became of a call into Rust.
enum QuarrySealOutcome : int32_t {
  QUARRY_SEAL_DONE = 0,
  // The bytes are not what was sealed.
  QUARRY_SEAL_DAMAGED = 1,
  // The system gave no random bytes.
  QUARRY_SEAL_FAILED = 2,
};

// Bytes that belong to Rust and stay until the next call for the same object.
struct QuarrySealBytes {
  const char* data;
  size_t size;
};

// The calls into Rust. Each object is used by one thread at a time, except `blocks` and `key`, which any number may use.
struct QuarrySealCalls {
  // The geometry of a file of blocks.
  uint64_t header_bytes;
  uint64_t block_bytes;
  uint64_t sealed_block_bytes;

  // Gives up the key, once.
  void (*drop_key)(void* key);

  // A writer of a new file, of blocks or of frames; its header is to be written first. Null where that fails.
  void* (*new_writer)(const void* key, bool is_of_blocks, QuarrySealBytes* out);
  int32_t (*append)(void* writer, const char* data, size_t size, QuarrySealBytes* out);
  int32_t (*end)(void* writer, QuarrySealBytes* out);
  void (*drop_writer)(void* writer);

  // A reader of a whole file, from its beginning. It is fed with the file's bytes, with none at the end.
  void* (*new_reader)(const void* key);
  void (*feed)(void* reader, const char* data, size_t size);
  int32_t (*take)(void* reader, char* out, size_t size, size_t* taken);
  void (*drop_reader)(void* reader);

  // A reader of blocks at any place, of the file that begins with this header. Null where it is not one.
  void* (*new_blocks)(const void* key, const char* header, size_t size);
  int32_t (*read_blocks)(const void* blocks, uint64_t first, char* sealed, size_t size, size_t skip, char* out,
                         size_t out_size, size_t* copied);
  void (*drop_blocks)(void* blocks);
};

// RocksDB's environment of this system with every file of a store sealed. Takes the key over.
rocksdb_env_t* quarry_sealed_env_create(void* key, const QuarrySealCalls* calls);
}
