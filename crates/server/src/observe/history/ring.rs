//! The file of the history: a ring of records of one size, each with all figures of one moment.
//!
//! A time has one place in the ring, so that nothing points to the newest record and nothing has to be put in order after a crash:
//! a record is there if its bytes are whole (they have a checksum) and if it is of the time that is asked for and not of a lap
//! before. Keeps true: the file never grows beyond its bound; a record that was torn is no record; figures that this version does
//! not know, or that an older one did not, are told apart by name.
//!
//! Leaves out syncing: what the kernel has survives a killed process, and a power loss may take the last half minute. Nothing that a
//! client waits for waits for this file.
//!
//! ```text
//! head     "QUARRYHI" | version u32 | step ms u32 | slots u32 | columns u32 | bytes of the names u32 | names, a line each | crc32c u32
//! record   time ms u64 | crc32c u32 of time and figures | 0 u32 | figures, an f32 each
//! ```
//! Numbers are big-endian. The head has `HEAD_BYTES`; the record of time `t` stands in slot `t / step % slots`. A figure that is not
//! known is NaN.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"QUARRYHI";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32 << 10;
/// The numbers in the head before the names.
const FIXED_BYTES: usize = 8 + 5 * 4;
const RECORD_HEAD_BYTES: usize = 16;
/// No head names more.
const COLUMNS_MAX: usize = 4096;
const SLOTS_MAX: u64 = 1 << 20;
/// Records read at once.
const CHUNK_SLOTS: u64 = 128;
const FREE_BYTES_MIN: u64 = 128 << 20;
/// Bytes of a block as `stat` counts them.
const BLOCK_BYTES: u64 = 512;

/// The ring: its file, and the shape that all its records have.
#[derive(Debug)]
pub struct Ring {
    file: File,
    directory: PathBuf,
    shape: Shape,
    /// The file does not grow while less than this is free: what is left belongs to the data.
    free_bytes_min: u64,
}

/// The shape of a ring's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub step_ms: u64,
    pub slots: u64,
    /// The figures of a record by name, in order.
    pub names: Vec<String>,
}

/// All figures of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Since the epoch, a multiple of the step.
    pub time_ms: u64,
    pub figures: Vec<f32>,
}

impl Shape {
    fn record_bytes(&self) -> usize {
        RECORD_HEAD_BYTES + 4 * self.names.len()
    }

    /// The size beyond which the file does not grow.
    pub fn bytes_max(&self) -> u64 {
        HEAD_BYTES as u64 + self.slots * self.record_bytes() as u64
    }

    /// The time of the record that a moment falls into.
    pub fn time_of(&self, ms: u64) -> u64 {
        ms - ms % self.step_ms
    }

    fn offset(&self, slot: u64) -> u64 {
        HEAD_BYTES as u64 + slot * self.record_bytes() as u64
    }

    fn head(&self) -> io::Result<Vec<u8>> {
        let names = self.names.join("\n");
        let mut head = MAGIC.to_vec();
        for number in [
            u64::from(VERSION),
            self.step_ms,
            self.slots,
            self.names.len() as u64,
            names.len() as u64,
        ] {
            let number = u32::try_from(number).map_err(io::Error::other)?;
            head.extend(number.to_be_bytes());
        }
        head.extend(names.as_bytes());
        head.extend(crc32c::crc32c(&head).to_be_bytes());
        if head.len() > HEAD_BYTES {
            return Err(io::Error::other(
                "the names of the history's figures are too long",
            ));
        }
        head.resize(HEAD_BYTES, 0);
        Ok(head)
    }

    /// Reads a head; none where it is torn, or of another version.
    fn parse(head: &[u8]) -> Option<Shape> {
        let number = |at: usize| u32_at(head, 8 + 4 * at).map(u64::from);
        if head.get(..8)? != MAGIC || number(0)? != u64::from(VERSION) {
            return None;
        }
        let (step_ms, slots, columns) = (number(1)?, number(2)?, number(3)? as usize);
        let end = FIXED_BYTES.checked_add(number(4)? as usize)?;
        if u32_at(head, end)? != crc32c::crc32c(head.get(..end)?) {
            return None;
        }
        let names = std::str::from_utf8(&head[FIXED_BYTES..end]).ok()?;
        let names: Vec<String> = names.split('\n').map(str::to_owned).collect();
        let is_usable = step_ms > 0
            && (1..=SLOTS_MAX).contains(&slots)
            && names.len() == columns
            && columns <= COLUMNS_MAX;
        is_usable.then_some(Shape {
            step_ms,
            slots,
            names,
        })
    }
}

impl Ring {
    /// Opens the file, and makes it where there is none. What a file of another shape holds is carried over by name.
    pub fn open(path: &Path, shape: Shape) -> io::Result<Ring> {
        let directory = path.parent().unwrap_or(Path::new(".")).to_path_buf();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut head = vec![0; HEAD_BYTES];
        let read = file.read_exact_at(&mut head, 0);
        let found = read.ok().and_then(|()| Shape::parse(&head));
        match found {
            Some(found) if found == shape => Ok(Ring::on(file, directory, shape)),
            Some(found) => Ring::on(file, directory, found).carried_over(path, shape),
            None => {
                file.set_len(0)?;
                file.write_all_at(&shape.head()?, 0)?;
                Ok(Ring::on(file, directory, shape))
            }
        }
    }

    fn on(file: File, directory: PathBuf, shape: Shape) -> Ring {
        Ring {
            file,
            directory,
            shape,
            free_bytes_min: FREE_BYTES_MIN,
        }
    }

    /// Writes a file of another shape with the figures of this one, and has it take this one's place.
    fn carried_over(self, path: &Path, shape: Shape) -> io::Result<Ring> {
        let beside = path.with_extension("new");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&beside)?;
        file.write_all_at(&shape.head()?, 0)?;
        let ring = Ring::on(file, self.directory.clone(), shape);
        let places: Vec<Option<usize>> = ring
            .shape
            .names
            .iter()
            .map(|name| self.place(name))
            .collect();
        for slot in 0..self.shape.slots {
            let Some(record) = self.in_slot(slot)? else {
                continue;
            };
            let figure = |place: &Option<usize>| place.map_or(f32::NAN, |at| record.figures[at]);
            let figures = places.iter().map(figure).collect();
            let time_ms = ring.shape.time_of(record.time_ms);
            ring.write(&Record { time_ms, figures })?;
        }
        fs::rename(&beside, path)?;
        Ok(ring)
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The place of a figure within a record.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.shape.names.iter().position(|known| known == name)
    }

    /// Writes a record to its place. Where the disk is nearly full the file does not grow, and the record is refused.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        debug_assert_eq!(record.figures.len(), self.shape.names.len());
        debug_assert_eq!(record.time_ms % self.shape.step_ms, 0);
        self.refuse_growth()?;
        let mut bytes = Vec::with_capacity(self.shape.record_bytes());
        bytes.extend(record.time_ms.to_be_bytes());
        bytes.extend([0; 8]);
        for figure in &record.figures {
            bytes.extend(figure.to_be_bytes());
        }
        let sum = checksum(&bytes).to_be_bytes();
        bytes[8..12].copy_from_slice(&sum);
        self.file
            .write_all_at(&bytes, self.shape.offset(self.slot(record.time_ms)))
    }

    fn refuse_growth(&self) -> io::Result<()> {
        let free = quarry_storage::free_bytes(&self.directory)?;
        if free >= self.free_bytes_min {
            return Ok(());
        }
        let held = self.file.metadata()?.blocks() * BLOCK_BYTES;
        if held >= self.shape.bytes_max() {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "{free} bytes are free, and {} are left for the data",
                self.free_bytes_min
            ),
        ))
    }

    fn slot(&self, time_ms: u64) -> u64 {
        time_ms / self.shape.step_ms % self.shape.slots
    }

    fn in_slot(&self, slot: u64) -> io::Result<Option<Record>> {
        let bytes = self.slots(slot, 1)?;
        Ok(parse_record(&bytes, &self.shape).filter(|record| self.slot(record.time_ms) == slot))
    }

    /// The bytes of slots in a row. What stands behind the end of the file is zero.
    fn slots(&self, first: u64, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count as usize * self.shape.record_bytes()];
        let (mut filled, offset) = (0, self.shape.offset(first));
        while filled < bytes.len() {
            match self
                .file
                .read_at(&mut bytes[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Hands the records from `from_ms` to `to_ms` to `take`, in order, those that there are. No more than one lap of them.
    pub fn each(&self, from_ms: u64, to_ms: u64, mut take: impl FnMut(Record)) -> io::Result<()> {
        let (step, slots) = (self.shape.step_ms, self.shape.slots);
        let last = to_ms / step;
        let mut tick = (from_ms / step).max((last + 1).saturating_sub(slots));
        while tick <= last {
            let slot = tick % slots;
            let count = CHUNK_SLOTS.min(slots - slot).min(last - tick + 1);
            let bytes = self.slots(slot, count)?;
            for (number, bytes) in bytes.chunks(self.shape.record_bytes()).enumerate() {
                let wanted = (tick + number as u64) * step;
                let found = parse_record(bytes, &self.shape);
                if let Some(record) = found.filter(|record| record.time_ms == wanted) {
                    take(record);
                }
            }
            tick += count;
        }
        Ok(())
    }
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..8]), &record[RECORD_HEAD_BYTES..])
}

fn parse_record(bytes: &[u8], shape: &Shape) -> Option<Record> {
    let time_ms = (u64::from(u32_at(bytes, 0)?) << 32) | u64::from(u32_at(bytes, 4)?);
    if bytes.len() != shape.record_bytes() || time_ms == 0 || u32_at(bytes, 8)? != checksum(bytes) {
        return None;
    }
    let figures = bytes[RECORD_HEAD_BYTES..].chunks_exact(4);
    let figures = figures
        .filter_map(|figure| u32_at(figure, 0))
        .map(f32::from_bits);
    Some(Record {
        time_ms,
        figures: figures.collect(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 10_000;

    fn shape(names: &[&str], slots: u64) -> Shape {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Shape {
            step_ms: STEP,
            slots,
            names,
        }
    }

    fn record(tick: u64, figures: &[f32]) -> Record {
        Record {
            time_ms: tick * STEP,
            figures: figures.to_vec(),
        }
    }

    fn all(ring: &Ring) -> Vec<(u64, Vec<f32>)> {
        all_of(ring, 1_000)
    }

    /// The records up to a tick.
    fn all_of(ring: &Ring, last: u64) -> Vec<(u64, Vec<f32>)> {
        let mut found = Vec::new();
        ring.each(0, last * STEP, |record| {
            found.push((record.time_ms / STEP, record.figures));
        })
        .unwrap();
        found
    }

    #[test]
    fn a_ring_keeps_its_last_lap_and_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let ring = Ring::open(&path, shape(&["a", "b"], 8)).unwrap();
        for tick in 990..=1_000 {
            ring.write(&record(tick, &[tick as f32, 0.5])).unwrap();
        }
        let kept = all(&ring);
        assert_eq!(kept.first().unwrap().0, 993);
        assert_eq!(kept.last().unwrap(), &(1_000, vec![1_000.0, 0.5]));
        assert_eq!(kept.len(), 8);
        assert!(fs::metadata(&path).unwrap().len() <= ring.shape.bytes_max());
        // Opened again it is as it was.
        drop(ring);
        assert_eq!(
            all(&Ring::open(&path, shape(&["a", "b"], 8)).unwrap()),
            kept
        );
    }

    #[test]
    fn a_gap_is_a_gap_and_an_older_lap_is_none_of_this_one() {
        let directory = tempfile::tempdir().unwrap();
        let ring = Ring::open(&directory.path().join("history"), shape(&["a"], 8)).unwrap();
        for tick in [991, 992, 993, 999, 1_000] {
            ring.write(&record(tick, &[1.0])).unwrap();
        }
        let ticks: Vec<u64> = all(&ring).into_iter().map(|(tick, _)| tick).collect();
        assert_eq!(ticks, [993, 999, 1_000]);
    }

    #[test]
    fn a_torn_record_is_none_wherever_it_was_torn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let shape = shape(&["a", "b"], 8);
        let ring = Ring::open(&path, shape.clone()).unwrap();
        // No byte of them is zero, as what stands behind the end of a file is.
        ring.write(&record(1_000, &[1.1, 2.3])).unwrap();
        let whole = fs::read(&path).unwrap();
        let start = ring.shape.offset(1_000 % 8) as usize;
        for at in start..start + ring.shape.record_bytes() {
            // The four bytes behind the checksum say nothing.
            if (start + 12..start + 16).contains(&at) {
                continue;
            }
            let mut torn = whole.clone();
            torn[at] ^= 1;
            fs::write(&path, &torn).unwrap();
            assert_eq!(all(&Ring::open(&path, shape.clone()).unwrap()), [], "{at}");
            // A file that ends within it.
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(all(&Ring::open(&path, shape.clone()).unwrap()), [], "{at}");
        }
    }

    #[test]
    fn a_disk_that_is_nearly_full_keeps_the_file_from_growing_and_not_from_being_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let mut ring = Ring::open(&path, shape(&["a"], 4_096)).unwrap();
        ring.write(&record(5_000, &[1.0])).unwrap();
        ring.free_bytes_min = u64::MAX;
        let refused = ring.write(&record(5_001, &[1.0])).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert_eq!(all_of(&ring, 5_001).len(), 1);
        // A file that has all its blocks is written as before.
        ring.free_bytes_min = 0;
        for tick in 5_000..5_000 + 4_096 {
            ring.write(&record(tick, &[1.0])).unwrap();
        }
        ring.free_bytes_min = u64::MAX;
        ring.write(&record(9_999, &[2.0])).unwrap();
        assert_eq!(all_of(&ring, 9_999).last().unwrap().1, [2.0]);
    }

    #[test]
    fn a_file_that_is_none_or_torn_in_its_head_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        for bytes in [&b""[..], b"x", &[0; HEAD_BYTES], &[0xff; 2 * HEAD_BYTES]] {
            fs::write(&path, bytes).unwrap();
            let ring = Ring::open(&path, shape(&["a"], 4)).unwrap();
            assert_eq!(all(&ring), []);
            ring.write(&record(1_000, &[1.0])).unwrap();
            assert_eq!(all(&ring).len(), 1);
        }
    }

    #[test]
    fn figures_are_carried_over_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let old = Ring::open(&path, shape(&["gone", "kept"], 8)).unwrap();
        for tick in 994..=1_000 {
            old.write(&record(tick, &[1.0, tick as f32])).unwrap();
        }
        drop(old);
        let new = Ring::open(&path, shape(&["kept", "new"], 16)).unwrap();
        let kept = all(&new);
        assert_eq!(kept.len(), 7);
        assert_eq!(kept[6].1[0], 1_000.0);
        assert!(kept[6].1[1].is_nan());
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn heads_are_refused_that_would_take_memory_for_nothing() {
        let whole = shape(&["a"], 4).head().unwrap();
        assert_eq!(Shape::parse(&whole), Some(shape(&["a"], 4)));
        for length in 0..64 {
            assert_eq!(Shape::parse(&whole[..length.min(30)]), None);
        }
        assert_eq!(Shape::parse(&shape(&["a"], 0).head().unwrap()), None);
        assert_eq!(
            Shape::parse(&shape(&["a"], SLOTS_MAX + 1).head().unwrap()),
            None
        );
    }
}
