//! The file that is imported: opened at a place, unpacked if it is compressed, and read in its format.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::documents::Documents;
#[cfg(feature = "parquet")]
use super::parquet;
use super::resume::Place;
use super::{Format, Import, PACKED_ENDING, delimited, json};
use crate::error::{Error, Result};

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Opens the file at the place, and gives its length where that is known.
pub fn open(options: &Import, place: Place) -> Result<(Box<dyn Documents>, Option<u64>)> {
    let format = options
        .format
        .unwrap_or_else(|| of_ending(options.file.as_deref()));
    let name = options
        .file
        .as_ref()
        .map_or("standard input".to_owned(), |path| {
            format!("`{}`", path.display())
        });
    check(options, format)?;
    if format == Format::Parquet {
        return parquet(options, place);
    }
    let (reader, bytes) = reader(options.file.as_deref(), place)?;
    if format == Format::Json {
        let documents = json::JsonFile::new(reader, name, place, options.legacy);
        return Ok((Box::new(documents), bytes));
    }
    let names = match (&options.fields, &options.field_file) {
        (Some(names), _) => Some(names.split(',').map(str::to_owned).collect()),
        (None, Some(path)) => Some(lines(path)?),
        (None, None) if options.headerline => None,
        (None, None) => {
            return Err(Error::usage(
                "CSV and TSV need --headerline, --fields or --fieldFile",
            ));
        }
    };
    // The names stand at the beginning, wherever the import goes on.
    let header = match (&names, place.offset) {
        (None, 1..) => Some(self::reader(options.file.as_deref(), Place::default())?.0),
        _ => None,
    };
    let layout = delimited::Layout {
        is_tsv: format == Format::Tsv,
        names,
        has_types: options.columns_have_types,
        grace: options.parse_grace,
        ignores_blanks: options.ignore_blanks,
    };
    let documents = delimited::DelimitedFile::new(reader, header, name, place, layout)?;
    Ok((Box::new(documents), bytes))
}

/// Looks whether the flags go with the format.
fn check(options: &Import, format: Format) -> Result<()> {
    let names_fields = options.headerline
        || options.fields.is_some()
        || options.field_file.is_some()
        || options.columns_have_types;
    if names_fields && !format.has_lines_of_values() {
        return Err(Error::usage("names of fields go with CSV and TSV"));
    }
    if format != Format::Json && (options.json_array || options.legacy) {
        return Err(Error::usage("--jsonArray and --legacy go with JSON"));
    }
    if format == Format::Json && options.ignore_blanks {
        return Err(Error::usage(
            "--ignoreBlanks goes with CSV, TSV and Parquet",
        ));
    }
    Ok(())
}

/// Opens a file of Parquet, whose footer says where everything stands.
#[cfg(feature = "parquet")]
fn parquet(options: &Import, place: Place) -> Result<(Box<dyn Documents>, Option<u64>)> {
    let Some(path) = &options.file else {
        return Err(Error::usage(
            "Parquet is read from a file, not from the standard input: its footer comes first",
        ));
    };
    let documents = parquet::ParquetFile::open(path, place, options.ignore_blanks)?;
    let bytes = std::fs::metadata(path).map_err(Error::file(path))?.len();
    Ok((Box::new(documents), Some(bytes)))
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &Import, _: Place) -> Result<(Box<dyn Documents>, Option<u64>)> {
    Err(Error::without_parquet())
}

fn of_ending(path: Option<&Path>) -> Format {
    let name = path
        .and_then(Path::file_name)
        .and_then(|name| name.to_str());
    let name = name.map(|name| name.strip_suffix(PACKED_ENDING).unwrap_or(name));
    match name.and_then(|name| name.rsplit_once('.')) {
        Some((_, "csv")) => Format::Csv,
        Some((_, "tsv")) => Format::Tsv,
        Some((_, "parquet")) => Format::Parquet,
        _ => Format::Json,
    }
}

fn reader(path: Option<&Path>, place: Place) -> Result<(Box<dyn Read>, Option<u64>)> {
    let Some(path) = path else {
        return Ok((Box::new(io::stdin()), None));
    };
    let failed = Error::file(path);
    let mut file = File::open(path).map_err(&failed)?;
    let metadata = file.metadata().map_err(&failed)?;
    let bytes = metadata.len();
    let is_shorter = |bytes: u64| {
        let what = format!(
            "it has {bytes} bytes, and {} of what was imported stood before: it is another file",
            place.offset
        );
        Error::damaged(format_args!("`{}`", path.display()), what)
    };
    if metadata.is_file() && is_packed(&file) {
        let mut unpacked = MultiGzDecoder::new(io::BufReader::new(file));
        let passed = io::copy(&mut (&mut unpacked).take(place.offset), &mut io::sink());
        return match passed.map_err(failed)? {
            passed if passed < place.offset => Err(is_shorter(passed)),
            _ => Ok((Box::new(unpacked), None)),
        };
    }
    if metadata.is_file() && place.offset > bytes {
        return Err(is_shorter(bytes));
    }
    // What is no file, such as a named pipe, can only be read from its beginning.
    if place.offset > 0 {
        file.seek(SeekFrom::Start(place.offset)).map_err(&failed)?;
    }
    Ok((Box::new(file), Some(bytes).filter(|bytes| *bytes > 0)))
}

/// Whether the file begins as gzip does, which no text does.
fn is_packed(file: &File) -> bool {
    let mut begin = [0; GZIP_MAGIC.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == GZIP_MAGIC
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let failed = Error::file(path);
    let file = File::open(path).map_err(&failed)?;
    let lines = io::BufReader::new(file).lines();
    lines.collect::<io::Result<_>>().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_has_become_shorter_is_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        fs::write(&path, "{\"a\": 1}\n").unwrap();
        let at = |offset| {
            let place = Place {
                offset,
                ..Place::default()
            };
            reader(Some(&path), place).map(|(_, bytes)| bytes)
        };
        assert_eq!(at(0).unwrap(), Some(9));
        assert_eq!(at(9).unwrap(), Some(9));
        let error = at(10).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("another file")));
    }
}
