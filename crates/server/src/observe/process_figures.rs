//! The kernel counts figures of this process: those that every Prometheus client library calls `process_*`.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// The figures at one moment; what the kernel does not tell is left out.
#[derive(Debug, Default, Clone, Copy)]
pub struct ProcessFigures {
    /// Processor time of all threads, in the kernel too.
    pub cpu_seconds: f64,
    /// The share of it that the kernel took.
    pub kernel_seconds: f64,
    /// Pages that were read from the disk when they were touched, and those that were found without.
    pub page_faults: u64,
    pub page_reclaims: u64,
    /// Since the epoch.
    pub start_seconds: f64,
    pub threads: u64,
    pub virtual_bytes: u64,
    pub resident_bytes: u64,
    /// The share of the resident bytes that stand behind files, such as a mapped database.
    pub file_bytes: u64,
    pub open_files: u64,
    pub open_files_max: Option<u64>,
}

impl ProcessFigures {
    /// Reads them; none where `/proc` is not what Linux has.
    pub fn now() -> Option<ProcessFigures> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let statm = fs::read_to_string("/proc/self/statm").ok()?;
        let mut figures = parse(&stat, &boot, &statm)?;
        // The listing holds one descriptor itself.
        let listed = fs::read_dir("/proc/self/fd").ok()?.count();
        figures.open_files = (listed as u64).saturating_sub(1);
        figures.open_files_max = getrlimit(Resource::Nofile).current;
        Some(figures)
    }
}

/// The resident memory that is the process's own: without the pages of files, which the kernel takes back by itself.
pub fn own_bytes() -> Option<usize> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = (statm.split(' ').skip(1)).map(|word| word.trim().parse::<usize>().ok());
    let (resident, of_files) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(of_files) * page_size())
}

/// `/proc/self/stat`, `/proc/stat` and `/proc/self/statm`, as proc(5) describes them.
fn parse(stat: &str, boot: &str, statm: &str) -> Option<ProcessFigures> {
    let ticks = clock_ticks_per_second() as f64;
    // The name of the program stands in brackets and may hold any.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    // Fields are counted from 1, and two stand before.
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.trim().parse().ok() };
    let boot_seconds = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
    let boot_seconds: f64 = boot_seconds.trim().parse().ok()?;
    let mut pages = statm.split(' ').map(|word| word.trim().parse::<u64>().ok());
    let mut bytes = || Some(pages.next()?? * page_size() as u64);
    Some(ProcessFigures {
        cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
        kernel_seconds: field(15)? as f64 / ticks,
        page_faults: field(12)?,
        page_reclaims: field(10)?,
        start_seconds: boot_seconds + field(22)? as f64 / ticks,
        threads: field(20)?,
        virtual_bytes: bytes()?,
        resident_bytes: bytes()?,
        file_bytes: bytes()?,
        ..ProcessFigures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_by_place() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 12 0 1000 99 8 18446744073709551615\n";
        let boot = "cpu  1 2\nbtime 1700000000\nprocesses 5\n";
        let figures = parse(stat, boot, "30 20 10 1 0 5 0\n").unwrap();
        let ticks = clock_ticks_per_second() as f64;
        assert_eq!(figures.cpu_seconds, 200.0 / ticks);
        assert_eq!(figures.start_seconds, 1_700_000_000.0 + 1_000.0 / ticks);
        assert_eq!(figures.kernel_seconds, 50.0 / ticks);
        assert_eq!((figures.page_faults, figures.page_reclaims), (3, 1));
        assert_eq!(figures.threads, 12);
        let page = page_size() as u64;
        assert_eq!(
            (
                figures.virtual_bytes,
                figures.resident_bytes,
                figures.file_bytes
            ),
            (30 * page, 20 * page, 10 * page)
        );
        assert!(parse("7 (x) S 1", boot, "1 1 1").is_none());
    }

    #[test]
    fn memory_that_is_written_is_the_processs_own() {
        const BYTES: usize = 64 << 20;
        let before = own_bytes().unwrap();
        let written = vec![1_u8; BYTES];
        let after = own_bytes().unwrap();
        assert!(
            after >= before + BYTES / 2,
            "{before} {after} {}",
            written[0]
        );
    }

    #[test]
    fn this_process_has_run_and_holds_files() {
        let figures = ProcessFigures::now().unwrap();
        assert!(figures.resident_bytes > 0 && figures.open_files >= 3 && figures.threads >= 1);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!((0.0..86_400.0).contains(&(now.as_secs_f64() - figures.start_seconds)));
    }
}
