//! The pages of a row group, within bounds.
//!
//! A page is unpacked whole, and a few bytes of it may stand for any number of values. So a page that says it becomes larger than `PAGE_BYTES_MAX` is
//! refused before it is unpacked, gzip, which the library unpacks without an end, is unpacked here, and the columns may draw only so many bytes and
//! values for a batch of rows.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding, PageType, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};

use super::compact::{Compact, Found, Known, Shape};
use super::deltas;

/// The largest page, when it is unpacked: far more than any writer makes.
const PAGE_BYTES_MAX: u64 = 512 << 20;
/// The bytes that the columns may draw for a batch, and hold of the batches before: pages, and the values of columns that have several for a row.
const DRAWN_BYTES_MAX: u64 = if cfg!(test) { 16 << 20 } else { 4 << 30 };
/// The head of a page: most are far smaller, and some have statistics with long texts in them.
const HEAD_BYTES: usize = 4 << 10;
const HEAD_BYTES_MAX: usize = 8 << 20;
/// The bytes that a text, or other bytes of any length, take in a batch besides the page that they stand in.
const VIEW_BYTES: u64 = 16;
/// The bytes that the levels of a value take.
const LEVELS_BYTES: u64 = 4;

/// A file that is read at places.
#[derive(Clone)]
pub struct Source {
    file: Arc<File>,
    bytes: u64,
}

impl Source {
    pub fn new(file: File) -> io::Result<Source> {
        let bytes = file.metadata()?.len();
        Ok(Source {
            file: Arc::new(file),
            bytes,
        })
    }

    /// Looks whether the columns of a row group stand in the file.
    pub fn check(&self, group: &RowGroupMetaData) -> std::result::Result<(), String> {
        for column in group.columns() {
            let start = column
                .dictionary_page_offset()
                .unwrap_or(column.data_page_offset());
            let range = u64::try_from(start)
                .ok()
                .zip(u64::try_from(column.compressed_size()).ok());
            let end = range.and_then(|(start, bytes)| start.checked_add(bytes));
            if end.is_none_or(|end| end > self.bytes) {
                return Err(format!(
                    "column `{}`: {} bytes at {start} do not stand in the file",
                    column.column_path().string(),
                    column.compressed_size()
                ));
            }
        }
        Ok(())
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Source {
    type T = BufReader<At>;

    fn get_read(&self, start: u64) -> Result<BufReader<At>> {
        let at = At {
            file: Arc::clone(&self.file),
            at: start,
            is_at_head: true,
        };
        Ok(BufReader::with_capacity(HEAD_BYTES, at))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.saturating_add(length as u64) > self.bytes {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} are not there"
            )));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

const PAGE_UNPACKED_BYTES: i64 = 2;
const DATA_PAGE: Shape = &[
    (1, Known::Number),
    (2, Known::Number),
    (3, Known::Number),
    (4, Known::Number),
];
const DICTIONARY_PAGE: Shape = &[(1, Known::Number), (2, Known::Number), (3, Known::Boolean)];
const DATA_PAGE_V2: Shape = &[
    (1, Known::Number),
    (2, Known::Number),
    (3, Known::Number),
    (4, Known::Number),
    (5, Known::Number),
    (6, Known::Number),
    (7, Known::Boolean),
];
const PAGE: Shape = &[
    (1, Known::Number),
    (PAGE_UNPACKED_BYTES, Known::Number),
    (3, Known::Number),
    (4, Known::Number),
    (5, Known::Structure(DATA_PAGE)),
    (6, Known::Structure(&[])),
    (7, Known::Structure(DICTIONARY_PAGE)),
    (8, Known::Structure(DATA_PAGE_V2)),
];

/// Looks whether the head of a page can be read, and whether the page does not become too large.
fn check_head(head: &[u8]) -> std::result::Result<(), String> {
    let mut unpacked = 0;
    let mut largest = |found: Found| {
        if found.id == PAGE_UNPACKED_BYTES {
            // The library cuts it as well.
            unpacked = unpacked.max(found.number as i32);
        }
    };
    Compact(head)
        .structure(PAGE, &mut largest)
        .map_err(|what| format!("the head of a page: {what}"))?;
    match u64::try_from(unpacked) {
        Ok(bytes) if bytes > PAGE_BYTES_MAX => Err(too_large(bytes)),
        _ => Ok(()),
    }
}

fn too_large(bytes: u64) -> String {
    format!("a page of {bytes} bytes, where {PAGE_BYTES_MAX} are possible")
}

/// A place in a file, from which is read on: that of a page's head, or one that the library asks for and does not read.
pub struct At {
    file: Arc<File>,
    at: u64,
    is_at_head: bool,
}

impl At {
    /// Looks at the head before the library reads the first byte of it; `begun` has its first bytes.
    fn check_head(&self, begun: &[u8]) -> io::Result<()> {
        let Err(what) = check_head(begun) else {
            return Ok(());
        };
        let is_whole = begun.len() < HEAD_BYTES;
        if is_whole {
            return Err(io::Error::other(what));
        }
        let mut head = vec![0; HEAD_BYTES_MAX];
        let head_bytes = self.file.read_at(&mut head, self.at)?;
        check_head(&head[..head_bytes]).map_err(io::Error::other)
    }
}

impl io::Read for At {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(out, self.at)?;
        if std::mem::take(&mut self.is_at_head) {
            self.check_head(&out[..read])?;
        }
        self.at += read as u64;
        Ok(read)
    }
}

/// Counts the bytes that the columns of a row group have drawn.
#[derive(Clone, Default)]
pub struct Drawn(Arc<Counts>);

#[derive(Default)]
struct Counts {
    batch: AtomicU64,
    bytes: AtomicU64,
}

impl Drawn {
    /// Begins a batch.
    pub fn begin(&self) {
        self.0.batch.fetch_add(1, Ordering::Relaxed);
    }

    fn batch(&self) -> u64 {
        self.0.batch.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) -> Result<()> {
        let before = self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > DRAWN_BYTES_MAX {
            return Err(ParquetError::General(format!(
                "a few rows of all columns take more than {DRAWN_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A row group of a file.
pub struct Group<'f> {
    pub source: &'f Source,
    pub metadata: &'f ParquetMetaData,
    pub index: usize,
    pub drawn: Drawn,
}

impl Group<'_> {
    fn columns(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.columns().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let chunk = self.columns().column(column);
        let pages = Pages::new(self.source, chunk, self.num_rows(), self.drawn.clone())?;
        Ok(Box::new(Chunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.columns()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The one chunk that a column has in a row group.
struct Chunk(Option<Pages>);

impl Iterator for Chunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pages = self.0.take()?;
        Some(Ok(Box::new(pages)))
    }
}

impl PageIterator for Chunk {}

/// The pages of a column, whose bytes and values are counted.
struct Pages {
    pages: SerializedPageReader<Source>,
    is_gzip: bool,
    column: ColumnDescPtr,
    drawn: Drawn,
    /// The batch that pages were last drawn for, and what is counted of this column.
    batch: u64,
    counted_bytes: u64,
    dictionary_bytes: u64,
    page_bytes: u64,
}

impl Pages {
    fn new(
        source: &Source,
        chunk: &ColumnChunkMetaData,
        rows: usize,
        drawn: Drawn,
    ) -> Result<Pages> {
        if let Compression::BROTLI(_) | Compression::LZO = chunk.compression() {
            return Err(ParquetError::NYI(format!(
                "pages in {} are not read",
                chunk.compression()
            )));
        }
        let is_gzip = matches!(chunk.compression(), Compression::GZIP(_));
        let chunk = match is_gzip {
            true => &chunk
                .clone()
                .into_builder()
                .set_compression(Compression::UNCOMPRESSED)
                .build()?,
            false => chunk,
        };
        // What old writers called LZ4 and was not would be unpacked without an end.
        let properties = ReaderProperties::builder()
            .set_backward_compatible_lz4(false)
            .build();
        let source = Arc::new(source.clone());
        Ok(Pages {
            pages: SerializedPageReader::new_with_properties(
                source,
                chunk,
                rows,
                None,
                Arc::new(properties),
            )?,
            is_gzip,
            column: chunk.column_descr_ptr(),
            batch: drawn.batch(),
            drawn,
            counted_bytes: 0,
            dictionary_bytes: 0,
            page_bytes: 0,
        })
    }

    fn count(&mut self, page: &Page) -> Result<()> {
        let batch = self.drawn.batch();
        if batch != self.batch {
            let held_bytes = self.dictionary_bytes + self.page_bytes;
            self.drawn.give_back(self.counted_bytes - held_bytes);
            (self.batch, self.counted_bytes) = (batch, held_bytes);
        }
        let bytes = self.becomes(page).map_err(ParquetError::General)?;
        match page.page_type() {
            PageType::DICTIONARY_PAGE => self.dictionary_bytes = bytes,
            _ => self.page_bytes = bytes,
        }
        self.counted_bytes = self.counted_bytes.saturating_add(bytes);
        self.drawn.add(bytes)
    }

    /// Counts the bytes that a page takes, with the values that the library makes of it: all of a dictionary, and those of a column that has several for a row; other
    /// columns have as many for a batch as rows.
    fn becomes(&self, page: &Page) -> std::result::Result<u64, String> {
        let page_bytes = page.buffer().len() as u64;
        let values = u64::from(page.num_values());
        let values_bytes = values.saturating_mul(value_bytes(&self.column));
        if page.page_type() == PageType::DICTIONARY_PAGE {
            if values > page_bytes {
                return Err(format!(
                    "a dictionary of {page_bytes} bytes has {values} values"
                ));
            }
            return Ok(page_bytes.saturating_add(values_bytes));
        }
        let values_bytes = match self.column.max_rep_level() {
            0 => 0,
            _ => values_bytes,
        };
        let deltas_bytes = match values_of(page, &self.column) {
            Some(values) => deltas::values_bytes(page.encoding(), values, page.num_values())?,
            None => 0,
        };
        Ok(page_bytes
            .saturating_add(values_bytes)
            .saturating_add(deltas_bytes))
    }
}

/// The values of a page behind its levels, if there are any.
fn values_of<'p>(page: &'p Page, column: &ColumnDescriptor) -> Option<&'p [u8]> {
    let bytes = page.buffer();
    let values = match page {
        Page::DataPage {
            num_values,
            rep_level_encoding,
            def_level_encoding,
            ..
        } => {
            let levels = [
                (column.max_rep_level(), rep_level_encoding),
                (column.max_def_level(), def_level_encoding),
            ];
            let mut rest = &bytes[..];
            for (level_max, encoding) in levels {
                if level_max > 0 {
                    let levels_bytes = match (encoding, rest.first_chunk::<4>()) {
                        (Encoding::RLE, Some(length)) => 4 + u32::from_le_bytes(*length) as u64,
                        _ => packed_levels_bytes(level_max, *num_values),
                    };
                    rest = rest.get(usize::try_from(levels_bytes).ok()?..)?;
                }
            }
            rest
        }
        Page::DataPageV2 {
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            let levels_bytes = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            bytes.get(usize::try_from(levels_bytes).ok()?..)?
        }
        Page::DictionaryPage { .. } => return None,
    };
    Some(values).filter(|values| !values.is_empty())
}

/// Counts the bytes of levels in the encoding that came before RLE: as many bits each as the largest.
fn packed_levels_bytes(level_max: i16, values: u32) -> u64 {
    let bits = u64::from(i16::BITS - level_max.leading_zeros());
    (bits * u64::from(values)).div_ceil(8)
}

/// Unpacks a page of gzip, the levels of a page of version 2 being as they are.
fn unpack_gzip(page: &mut Page) -> Result<()> {
    match page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
            *buf = unpacked_gzip(buf, 0)?;
        }
        Page::DataPageV2 {
            buf,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed: true,
            ..
        } => {
            let levels_bytes = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            *buf = unpacked_gzip(buf, levels_bytes as usize)?;
        }
        Page::DataPageV2 { .. } => {}
    }
    Ok(())
}

fn unpacked_gzip(bytes: &[u8], levels_bytes: usize) -> Result<Bytes> {
    let Some((levels, packed)) = bytes.split_at_checked(levels_bytes) else {
        return Err(ParquetError::EOF("a page ends in its levels".to_owned()));
    };
    let mut unpacked = levels.to_vec();
    if !packed.is_empty() {
        let mut bounded = MultiGzDecoder::new(packed).take(PAGE_BYTES_MAX + 1);
        bounded.read_to_end(&mut unpacked)?;
    }
    match unpacked.len() as u64 {
        bytes if bytes > PAGE_BYTES_MAX => Err(ParquetError::General(too_large(bytes))),
        _ => Ok(unpacked.into()),
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.pages.get_next_page()? else {
            return Ok(None);
        };
        if self.is_gzip {
            unpack_gzip(&mut page)?;
        }
        self.count(&page)?;
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// The bytes that a value of a column takes in a batch.
pub fn value_bytes(column: &ColumnDescriptor) -> u64 {
    let value = match column.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => VIEW_BYTES,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0),
    };
    value + LEVELS_BYTES
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn the_head_of_a_page_says_how_large_it_becomes() {
        let head = |unpacked: &[u8]| [&[0x15, 0, 0x15], unpacked, &[0x15, 2, 0]].concat();
        assert_eq!(check_head(&head(&[0x80, 0x01])), Ok(()));
        assert_eq!(check_head(&head(&[0x01])), Ok(()));
        let largest = check_head(&head(&[0xFE, 0xFF, 0xFF, 0xFF, 0x0F])).unwrap_err();
        assert!(
            largest.starts_with("a page of 2147483647 bytes"),
            "{largest}"
        );
        // The same number behind the full number of its field, and twice.
        for bytes in [
            &[0x05, 4, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0x05, 2, 0, 0][..],
            &[0x25, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0x05, 4, 0, 0],
            // Less than none, which is as much when it is cut to 32 bits.
            &[0x25, 0x81, 0x80, 0x80, 0x80, 0x10, 0],
        ] {
            assert_eq!(check_head(bytes), Err(too_large(i32::MAX as u64)));
        }
        for bytes in [
            &[0x15, 0][..],
            &[0x18, 1, 2, 0],
            &[0x5C, 0x19, 0x21, 0, 0, 0],
        ] {
            assert!(
                check_head(bytes)
                    .unwrap_err()
                    .starts_with("the head of a page: ")
            );
        }
    }

    #[test]
    fn gzip_is_unpacked_as_far_as_a_page_may_be() {
        let pack = |bytes: &[u8]| {
            let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        };
        let page = [b"levels".to_vec(), pack(b"values")].concat();
        assert_eq!(unpacked_gzip(&page, 6).unwrap(), &b"levelsvalues"[..]);
        assert_eq!(unpacked_gzip(b"levels", 6).unwrap(), &b"levels"[..]);
        assert!(unpacked_gzip(b"levels", 7).is_err());
        assert!(unpacked_gzip(&page[..20], 6).is_err());
        // Members one after the other become larger than their sizes say.
        let member = pack(&vec![0; 64 << 20]);
        let error = unpacked_gzip(&member.repeat(9), 0).unwrap_err().to_string();
        assert!(error.contains("a page of 536870913 bytes"), "{error}");
    }
}
