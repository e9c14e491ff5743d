//! `hostInfo`: the machine, as the kernel tells of it.

use std::fs;

use quarry_bson::{DateTime, DocumentBuilder};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    aliases: &["hostinfo"],
    is_admin_only: true,
    ..Command::new(
        "hostInfo",
        "describes the machine",
        Requires::Each(&[need(Action::HostInfo, On::Cluster)]),
        run,
    )
};

const BYTES_A_MIB: u64 = 1 << 20;

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let uname = rustix::system::uname();
    let mut system = reply.document("system");
    system.append("currentTime", DateTime::now());
    system.append(
        "hostname",
        format!(
            "{}:{}",
            uname.nodename().to_string_lossy(),
            invocation.server.port()
        )
        .as_str(),
    );
    system.append("cpuAddrSize", usize::BITS as i32);
    let memory = rustix::system::sysinfo();
    let unit = u64::from(memory.mem_unit);
    let memory_mib = (memory.totalram * unit / BYTES_A_MIB) as i64;
    system.append("memSizeMB", memory_mib);
    system.append("memLimitMB", memory_mib);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let online = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    if online > 0 {
        system.append("numCores", i32::try_from(online).unwrap_or(i32::MAX));
    }
    if let Ok(available) = std::thread::available_parallelism() {
        system.append(
            "numCoresAvailableToProcess",
            i32::try_from(available.get()).unwrap_or(i32::MAX),
        );
    }
    let sockets = distinct_values(&cpuinfo, "physical id").max(1);
    let of_socket = value_of(&cpuinfo, "cpu cores").and_then(|cores| cores.parse::<i32>().ok());
    if let Some(cores) = of_socket {
        system.append("numPhysicalCores", cores.saturating_mul(sockets));
    }
    system.append("numCpuSockets", sockets);
    system.append("cpuArch", &*uname.machine().to_string_lossy());
    let nodes = numa_nodes();
    system.append("numaEnabled", nodes > 1);
    system.append("numNumaNodes", nodes);
    system.finish();
    let mut os = reply.document("os");
    os.append("type", &*uname.sysname().to_string_lossy());
    if let Some(name) = release_name() {
        os.append("name", name.as_str());
    }
    os.append("version", &*uname.release().to_string_lossy());
    os.finish();
    let mut extra = reply.document("extra");
    if let Some(model) = value_of(&cpuinfo, "model name") {
        extra.append("cpuString", model);
    }
    extra.append("versionString", &*uname.version().to_string_lossy());
    extra.append("kernelVersion", &*uname.release().to_string_lossy());
    if let Some(frequency) = value_of(&cpuinfo, "cpu MHz") {
        extra.append("cpuFrequencyMHz", frequency);
    }
    if let Some(features) = value_of(&cpuinfo, "flags") {
        extra.append("cpuFeatures", features);
    }
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let descriptors = descriptors.and_then(|max| i64::try_from(max).ok());
    extra.append("maxOpenFiles", descriptors.unwrap_or(i64::MAX));
    extra.append("pageSize", rustix::param::page_size() as i64);
    extra.finish();
    Ok(())
}

fn value_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

/// How many different values the lines of that name have.
fn distinct_values(text: &str, name: &str) -> i32 {
    let lines = text.lines().filter(|line| line.starts_with(name));
    let mut values: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(_, value)| value)
        .collect();
    values.sort_unstable();
    values.dedup();
    i32::try_from(values.len()).unwrap_or(i32::MAX)
}

/// The memory nodes of the machine; one where the kernel does not tell.
fn numa_nodes() -> i32 {
    let Ok(nodes) = fs::read_dir("/sys/devices/system/node") else {
        return 1;
    };
    let is_node = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    let count = nodes
        .flatten()
        .filter(|entry| is_node(&entry.file_name().to_string_lossy()));
    i32::try_from(count.count()).unwrap_or(i32::MAX).max(1)
}

/// The distribution's name of itself.
fn release_name() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}
