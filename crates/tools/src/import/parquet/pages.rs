//! The pages of a row group, within bounds.
//!
//! A page is unpacked whole, and a few bytes of it may stand for any number of values. So a page that says it becomes larger than `PAGE_BYTES_MAX` is
//! refused before it is unpacked, and a column may draw only so many values' worth of pages for a batch of rows.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Type;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

/// The largest page, when it is unpacked: far more than any writer makes.
const PAGE_BYTES_MAX: u64 = 512 << 20;
/// What the values that a column draws for a batch may take.
const DRAWN_BYTES_MAX: u64 = 1 << 30;
const HEADER_READ_BYTES: usize = 4 << 10;
/// What a text or other bytes of any length take in a batch, besides the page that they stand in.
const VIEW_BYTES: u64 = 16;
/// What the levels of a value take.
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

    /// Reads from a place at which the head of a page stands.
    fn get_read(&self, start: u64) -> Result<BufReader<At>> {
        let mut head = [0; 24];
        let head_bytes = self.file.read_at(&mut head, start)?;
        let bytes = unpacked_bytes(&head[..head_bytes]);
        if bytes.is_some_and(|bytes| bytes > PAGE_BYTES_MAX) {
            return Err(ParquetError::General(format!(
                "a page of {} bytes, where {PAGE_BYTES_MAX} are possible",
                bytes.unwrap_or(0)
            )));
        }
        let at = At {
            file: Arc::clone(&self.file),
            at: start,
        };
        Ok(BufReader::with_capacity(HEADER_READ_BYTES, at))
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

/// The size of a page when it is unpacked, which is the second field of its head in Thrift's compact protocol.
fn unpacked_bytes(head: &[u8]) -> Option<u64> {
    /// A field of 32 bits, whose number is one more than that of the field before.
    const NEXT_I32: u8 = 0x15;
    let mut bytes = head.iter().copied();
    let mut field = || {
        if bytes.next()? != NEXT_I32 {
            return None;
        }
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = bytes.next()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number >> 1);
            }
        }
        None
    };
    field()?;
    field()
}

/// A place in a file, from which is read on.
pub struct At {
    file: Arc<File>,
    at: u64,
}

impl Read for At {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// What each column has drawn since a batch began.
#[derive(Clone, Default)]
pub struct Drawn(Arc<AtomicU64>);

impl Drawn {
    /// Begins a batch.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn batch(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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

/// The pages of a column, whose values are counted.
struct Pages {
    pages: SerializedPageReader<Source>,
    value_bytes: u64,
    drawn: Drawn,
    /// The batch that pages were last drawn for, and what was drawn for it.
    batch: u64,
    batch_bytes: u64,
}

impl Pages {
    fn new(
        source: &Source,
        chunk: &ColumnChunkMetaData,
        rows: usize,
        drawn: Drawn,
    ) -> Result<Pages> {
        Ok(Pages {
            pages: SerializedPageReader::new(Arc::new(source.clone()), chunk, rows, None)?,
            value_bytes: value_bytes(chunk.column_descr()),
            batch: drawn.batch(),
            drawn,
            batch_bytes: 0,
        })
    }

    fn count(&mut self, page: &Page) -> Result<()> {
        let batch = self.drawn.batch();
        if batch != self.batch {
            (self.batch, self.batch_bytes) = (batch, 0);
        }
        let bytes = u64::from(page.num_values()).saturating_mul(self.value_bytes);
        self.batch_bytes = self.batch_bytes.saturating_add(bytes);
        if self.batch_bytes > DRAWN_BYTES_MAX {
            return Err(ParquetError::General(
                "some rows have more values than any document has room for".to_owned(),
            ));
        }
        Ok(())
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
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.count(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        self.pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// What a value of a column takes in a batch.
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
    use super::*;

    #[test]
    fn the_head_of_a_page_says_how_large_it_becomes() {
        assert_eq!(
            unpacked_bytes(&[0x15, 0, 0x15, 0x80, 0x01, 0x15, 2]),
            Some(64)
        );
        let largest = [0x15, 0, 0x15, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0x15, 2];
        assert_eq!(unpacked_bytes(&largest), Some(i32::MAX as u64));
        assert_eq!(unpacked_bytes(&[0x15, 0]), None);
        assert_eq!(unpacked_bytes(&[0x25, 0, 0x15, 2]), None);
    }
}
