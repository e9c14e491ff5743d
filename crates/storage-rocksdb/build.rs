//! Compiles the file system of an encrypted store (`cpp/sealed_env.cc`) against the headers of the RocksDB that is linked.

fn main() {
    println!("cargo::rerun-if-changed=cpp/sealed_env.cc");
    println!("cargo::rerun-if-changed=cpp/sealed_env.h");
    let headers = std::env::var("DEP_ROCKSDB_INCLUDE")
        .expect("the crate that compiles RocksDB says where its headers are");
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        // As RocksDB itself is compiled: a class of ours has no type information that its base class lacks.
        .flag("-fno-rtti")
        .flag("-include")
        .flag("cstdint")
        .define("NDEBUG", "1")
        .define("ROCKSDB_PLATFORM_POSIX", None)
        .define("ROCKSDB_LIB_IO_POSIX", None)
        .define("OS_LINUX", None)
        // Its headers have unused parameters by design.
        .flag("-Wno-unused-parameter")
        .include(headers)
        .file("cpp/sealed_env.cc")
        .compile("quarry_sealed_env");
}
