//! A file that is written under another name and gets its own when it is whole.
//!
//! Keeps true: under the name there is either what was there before, or everything; what is there has been synced. A file that is not finished is
//! removed, and a compressed stream that is not finished has no trailer, so that nobody takes it for whole.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Added to the name while the file is being written.
pub const UNFINISHED: &str = ".part";
/// The longest name that file systems take.
pub const NAME_BYTES_MAX: usize = 255;
const WRITE_BYTES: usize = 1 << 20;
pub const STANDARD_OUTPUT: &str = "-";

/// A file, or the standard output, until it is finished.
pub struct NewFile {
    stream: Stream,
    is_given_up: Arc<AtomicBool>,
    place: Place,
}

enum Stream {
    Plain(BufWriter<Gate>),
    Compressed(Box<GzEncoder<BufWriter<Gate>>>),
}

enum Place {
    /// The standard output, or a named pipe: nothing that is written can be taken back.
    Open,
    /// A file that gets the second name when it is whole.
    Hidden(PathBuf, PathBuf),
}

/// Lets bytes through, until the file has been given up: an encoder that is dropped writes its trailer to nowhere.
struct Gate {
    out: Out,
    is_given_up: Arc<AtomicBool>,
}

enum Out {
    File(File),
    Standard(io::Stdout),
}

impl NewFile {
    /// Begins the file of that name; `-` is the standard output.
    pub fn create(path: &Path, is_compressed: bool) -> io::Result<NewFile> {
        let (out, place) = match path == Path::new(STANDARD_OUTPUT) {
            true => (Out::Standard(io::stdout()), Place::Open),
            false => open(path)?,
        };
        let is_given_up = Arc::new(AtomicBool::new(false));
        let gate = Gate {
            out,
            is_given_up: Arc::clone(&is_given_up),
        };
        let buffered = BufWriter::with_capacity(WRITE_BYTES, gate);
        Ok(NewFile {
            stream: match is_compressed {
                true => {
                    let encoder = GzEncoder::new(buffered, Compression::default());
                    Stream::Compressed(Box::new(encoder))
                }
                false => Stream::Plain(buffered),
            },
            is_given_up,
            place,
        })
    }

    /// Writes the end, syncs the file, and gives it its name.
    pub fn finish(mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(out) => out.flush()?,
            Stream::Compressed(encoder) => {
                encoder.try_finish()?;
                encoder.get_mut().flush()?;
            }
        }
        let Place::Hidden(hidden, path) = &self.place else {
            return Ok(());
        };
        let gate = match &self.stream {
            Stream::Plain(out) => out.get_ref(),
            Stream::Compressed(encoder) => encoder.get_ref().get_ref(),
        };
        if let Out::File(file) = &gate.out {
            file.sync_all()?;
        }
        fs::rename(hidden, path)?;
        let named = sync_directory_of(path);
        self.place = Place::Open;
        named
    }
}

/// Opens what a name stands for: a file beside the one of that name, or what is there and is no file.
fn open(path: &Path) -> io::Result<(Out, Place)> {
    // A link stays one, and the file that it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_special = fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file());
    if is_special {
        return Ok((Out::File(File::create(&path)?), Place::Open));
    }
    let hidden = hidden(&path);
    let file = File::create(&hidden)?;
    Ok((Out::File(file), Place::Hidden(hidden, path)))
}

/// The path of a file until it is whole. Where its name leaves no room for the ending, as that of a collection's metadata may, it loses
/// its last characters: names that long have what tells them apart before.
fn hidden(path: &Path) -> PathBuf {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return with_ending(path, UNFINISHED);
    };
    let mut end = name.len().min(NAME_BYTES_MAX - UNFINISHED.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    path.with_file_name(format!("{}{UNFINISHED}", &name[..end]))
}

/// The path with an ending added to the whole of its name.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Makes the names in the directory of a file durable.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl Drop for NewFile {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        if let Place::Hidden(hidden, _) = &self.place {
            let _ = fs::remove_file(hidden);
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(out) => out.write(bytes),
            Stream::Compressed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(out) => out.flush(),
            Stream::Compressed(out) => out.flush(),
        }
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other("the file has been given up"));
        }
        match &mut self.out {
            Out::File(file) => file.write(bytes),
            Out::Standard(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::File(file) => file.flush(),
            Out::Standard(out) => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        for is_compressed in [false, true] {
            let path = directory.path().join(format!("a.{is_compressed}"));
            fs::write(&path, "what was there").unwrap();
            let mut given_up = NewFile::create(&path, is_compressed).unwrap();
            given_up.write_all(&[7; 5000]).unwrap();
            drop(given_up);
            assert_eq!(fs::read(&path).unwrap(), b"what was there");
            assert!(!with_ending(&path, UNFINISHED).exists());

            let mut whole = NewFile::create(&path, is_compressed).unwrap();
            whole.write_all(&[7; 5000]).unwrap();
            whole.finish().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            if is_compressed {
                let packed = std::mem::take(&mut bytes);
                GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
            }
            assert_eq!(bytes, [7; 5000]);
            assert!(!with_ending(&path, UNFINISHED).exists());
        }
    }

    #[test]
    fn a_stream_that_is_given_up_gets_no_trailer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.part");
        let is_given_up = Arc::new(AtomicBool::new(false));
        let gate = Gate {
            out: Out::File(File::create(&path).unwrap()),
            is_given_up: Arc::clone(&is_given_up),
        };
        let mut encoder = GzEncoder::new(BufWriter::new(gate), Compression::default());
        encoder.write_all(&[7; 5000]).unwrap();
        encoder.flush().unwrap();
        is_given_up.store(true, Ordering::Relaxed);
        drop(encoder);
        let packed = fs::read(&path).unwrap();
        assert!(!packed.is_empty());
        let mut bytes = Vec::new();
        let read = GzDecoder::new(&packed[..]).read_to_end(&mut bytes);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// The metadata of a collection whose name is cut has 252 bytes, and 255 with `.gz`: as many as file systems take.
    #[test]
    fn a_name_may_be_as_long_as_file_systems_take() {
        let directory = tempfile::tempdir().unwrap();
        for (name_len, character) in [(250, "x"), (251, "x"), (255, "x"), (254, "\u{e4}")] {
            let name = character.repeat(name_len / character.len());
            assert_eq!(name.len(), name_len);
            let path = directory.path().join(name);
            let mut file = NewFile::create(&path, false).unwrap();
            assert!(!path.exists());
            file.write_all(b"whole").unwrap();
            file.finish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"whole");
        }
        let files = fs::read_dir(directory.path()).unwrap();
        assert_eq!(files.count(), 4, "nothing else is left");
    }

    #[test]
    fn an_ending_is_added_to_the_whole_name() {
        let named = |path: &str| with_ending(Path::new(path), ".new");
        assert_eq!(named("a.json"), Path::new("a.json.new"));
        assert_ne!(named("a.x"), named("a.y"));
    }
}
