//! Columns, compressed with zstd: a row group per page of articles that were read.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{COLUMNS, Cell, Kind, Row, Writer};

/// Rows that go into one group at the least.
const GROUP: usize = 5_000;

/// A file of columns.
pub(super) struct Columns {
    file: SerializedFileWriter<BufWriter<File>>,
    waiting: Vec<Row>,
}

impl Columns {
    pub(super) fn new(file: BufWriter<File>) -> Result<Self, String> {
        let settings = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("Feedmill ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let file = schema()
            .and_then(|schema| {
                SerializedFileWriter::new(file, Arc::new(schema), Arc::new(settings))
            })
            .map_err(|error| error.to_string())?;
        Ok(Self { file, waiting: Vec::new() })
    }

    fn group(&mut self) -> Result<(), ParquetError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            write(&mut column, at, &self.waiting)?;
            column.close()?;
            at += 1;
        }
        group.close()?;
        self.waiting.clear();
        Ok(())
    }
}

fn schema() -> Result<Type, ParquetError> {
    let field = |(name, kind): (&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Number => (Physical::INT64, None),
            Kind::Time => {
                let time = LogicalType::timestamp(true, TimeUnit::MILLIS);
                (Physical::INT64, Some(time))
            }
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let fields = COLUMNS.into_iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("article").with_fields(fields).build()
}

/// Writes a column: what is there, and where nothing is.
fn write(
    column: &mut SerializedColumnWriter<'_>,
    at: usize,
    rows: &[Row],
) -> Result<(), ParquetError> {
    let (mut texts, mut numbers, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let before = texts.len() + numbers.len();
        match row.cells().into_iter().nth(at) {
            Some(Cell::Text(text)) => texts.extend(text.map(ByteArray::from)),
            Some(Cell::Time(at)) => numbers.extend(at.map(|at| at.ms())),
            Some(Cell::Number(number)) => numbers.push(number),
            None => {}
        }
        there.push(i16::from(texts.len() + numbers.len() > before));
    }
    match COLUMNS.get(at).map(|(_, kind)| *kind) {
        Some(Kind::Text) => {
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&there), None)?;
        }
        _ => {
            column.typed::<Int64Type>().write_batch(&numbers, Some(&there), None)?;
        }
    }
    Ok(())
}

impl Writer for Columns {
    fn put(&mut self, rows: &[Row]) -> Result<(), String> {
        self.waiting.extend_from_slice(rows);
        if self.waiting.len() < GROUP {
            return Ok(());
        }
        self.group().map_err(|error| error.to_string())
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.group().map_err(|error| error.to_string())?;
        let file = self.file.into_inner().map_err(|error| error.to_string())?;
        super::synced(file)
    }
}
