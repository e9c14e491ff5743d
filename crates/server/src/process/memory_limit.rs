//! The memory that the process may have: the machine's, or what its control group allows of it.

use std::fs;
use std::path::{Path, PathBuf};

/// The smallest limit that holds; none where the kernel tells of none.
pub fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total(&text));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = group_files(&own).into_iter();
    let limits = groups.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    machine.into_iter().chain(limits).min()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The files that may hold a limit of the process or of a group around it. `/proc/self/cgroup` has a line
/// `0::/group` for version 2, and one like `4:memory:/group` for version 1. Within a container the group's own directory may
/// be the root of the file system of groups.
fn group_files(own: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        let around = group.ancestors().map(|group| Path::new(root).join(group));
        files.extend(around.map(|directory| directory.join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_machines_or_a_groups() {
        assert_eq!(
            total("MemTotal:       2048 kB\nMemFree: 1 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(total("MemFree: 1 kB\n"), None);
        let files = group_files("4:cpu,memory:/a\n2:cpu:/b\n0::/c/d\nnonsense\n");
        let files: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/c/d/memory.max",
                "/sys/fs/cgroup/c/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert!(bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
