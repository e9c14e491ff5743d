//! `$group`: one document for each distinct key, in the order in which the keys came first. Keys are equal as
//! BSON values are: 1, 1.0 and NumberLong(1) are one key, Missing counts as Null. Groups that outgrow the memory of the stage go
//! on in files (`group_overflow.rs`).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawElement, RawValue, Value};
use quarry_timing::{Phase, phase};

use super::accumulation::Accumulation;
use super::accumulators::Column;
use super::execution::{RunningStage, Source, Upstream};
use super::gathered::Gathered;
use super::group_overflow::{self, GroupMemory, GroupedRows, Overflow};
use super::group_rows::{self, GroupRows, RowShape};
use super::plain_values::PlainValues;
use super::shared_input::{Gather, Part};
use super::stage::{FieldOrder, InFront, Reads, Specification, Stage, Stages, one};
use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, ExpressionContext};
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::memory::Charge;
use crate::spilling::DiskUse;
use crate::value_set::{ValueSet, entry_bytes};

/// The work of taking a row, beside that on its values.
const UNITS_OF_A_ROW: usize = 4;

#[derive(Debug)]
struct Group {
    specification: Document,
    id: Expression,
    fields: Vec<Field>,
    /// The key and the operands, where none of them has to be evaluated.
    plain: Option<PlainValues>,
    /// How other threads hand in what the stage takes, once one has begun.
    row_shape: OnceLock<RowShape>,
    disk_use: DiskUse,
    collation: Collation,
}

#[derive(Debug)]
struct Field {
    name: Box<str>,
    accumulation: Accumulation,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    Group::parse(specification).map(one)
}

impl Stage for Group {
    fn name(&self) -> &'static str {
        "$group"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.specification.as_raw());
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        let known = self.id.add_fields_read(fields)
            && self
                .fields
                .iter()
                .all(|field| field.accumulation.operand.add_fields_read(fields));
        if known {
            Reads::Only
        } else {
            Reads::Everything
        }
    }

    /// A filter on the key alone asks for the fields that the key is made of.
    fn in_front(&self, filter: RawDocument<'_>, context: &ExpressionContext) -> Result<InFront> {
        let renamed = Gathered::under_id(&self.id).in_front(filter, context)?;
        Ok(renamed.map_or(InFront::Nothing, InFront::Moved))
    }

    fn values_grouped(&self) -> Option<&FieldPath> {
        let path = self.id.as_path().filter(|_| self.fields.is_empty())?;
        path.root_path()
    }

    fn firsts_grouped(&self) -> Option<&FieldPath> {
        let mut fields = self.fields.iter();
        let are_firsts = fields.all(|field| field.accumulation.is_first());
        self.id.as_path().filter(|_| are_firsts)?.root_path()
    }

    fn order_of_fields(&self) -> FieldOrder {
        FieldOrder::Hidden
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Grouping {
            stage: self,
            groups: None,
        })
    }
}

impl Group {
    fn parse(specification: Specification<'_>) -> Result<Group> {
        let RawValue::Document(fields_of_all) = specification.value else {
            return Err(Error::location(
                15947,
                "a group's fields must be specified in an object",
            ));
        };
        let (mut id, mut fields, mut names) = (None, Vec::<Field>::new(), HashSet::new());
        for element in fields_of_all {
            if element.name() == "_id" {
                if id.is_some() {
                    return Err(Error::location(
                        15948,
                        "a group's _id may only be specified once",
                    ));
                }
                id = Some(specification.expression(element.value())?);
                continue;
            }
            let field = Field::parse(element, specification)?;
            if !names.insert(element.name()) {
                return Err(Error::location(
                    16406,
                    format!("duplicate field name in $group: {}", field.name),
                ));
            }
            fields.push(field);
        }
        let id =
            id.ok_or_else(|| Error::location(15955, "a group specification must include an _id"))?;
        Ok(Group {
            specification: fields_of_all.to_owned_document(),
            plain: PlainValues::of(
                std::iter::once(&id).chain(fields.iter().map(|field| &field.accumulation.operand)),
            ),
            row_shape: OnceLock::new(),
            id,
            fields,
            disk_use: specification.context.disk_use(),
            collation: specification.context.collation().clone(),
        })
    }

    /// Reads all input.
    fn fill(self: &Arc<Self>, upstream: &mut Upstream<'_, '_>) -> Result<Groups> {
        let mut filling = Filling {
            stage: self,
            keys: ValueSet::new(&self.collation),
            columns: self.start_columns(),
            memory: Charge::default(),
            bounds: GroupMemory::new(self.disk_use),
            overflow: None,
        };
        let _scope = phase(Phase::Group);
        upstream.share_input();
        loop {
            upstream.each(&mut |document| {
                match &self.plain {
                    Some(plain) => filling.add_plain(&plain.find(document)?)?,
                    None => filling.add_evaluated(document)?,
                }
                filling.check_memory()
            })?;
            if !self.take_rows(&mut filling, upstream)? {
                return filling.finish();
            }
        }
    }

    /// Takes the rows that other threads have made of the next documents, until there are documents again; false if there are none.
    fn take_rows(
        self: &Arc<Self>,
        filling: &mut Filling<'_>,
        upstream: &mut Upstream<'_, '_>,
    ) -> Result<bool> {
        loop {
            match upstream.next_part(&|stages| Box::new(Gathering::new(self, stages)))? {
                Part::Documents => return Ok(true),
                Part::End => return Ok(false),
                Part::Rows(rows) => filling.add_rows(&rows, self.row_shape())?,
            }
        }
    }

    fn row_shape(&self) -> &RowShape {
        self.row_shape.get_or_init(|| {
            let operands = self.fields.iter().map(|field| &field.accumulation.operand);
            RowShape::new(operands, self.plain.as_ref())
        })
    }

    /// Makes the columns of no groups.
    fn start_columns(&self) -> Vec<Box<dyn Column>> {
        let fields = self.fields.iter();
        fields.map(|field| field.accumulation.start()).collect()
    }

    /// The bytes that the accumulators of one group take while empty.
    fn accumulators_bytes(&self) -> usize {
        let fields = self.fields.iter();
        fields.map(|field| field.accumulation.start_bytes()).sum()
    }
}

impl Field {
    fn parse(element: RawElement<'_>, specification: Specification<'_>) -> Result<Field> {
        let name = element.name().as_str()?;
        let accumulator = element.value().as_document();
        let accumulator = accumulator.unwrap_or(RawDocument::EMPTY);
        let first = accumulator.first();
        if !first.is_some_and(|first| first.name().as_bytes().starts_with(b"$")) {
            return Err(Error::location(
                40234,
                format!("The field '{name}' must be an accumulator object"),
            ));
        }
        if name.contains('.') {
            return Err(Error::location(
                40235,
                format!("The field name '{name}' cannot contain '.'"),
            ));
        }
        if name.starts_with('$') {
            return Err(Error::location(
                40236,
                format!("The field name '{name}' cannot be an operator name"),
            ));
        }
        let mut members = accumulator.iter();
        let (Some(member), None) = (members.next(), members.next()) else {
            return Err(Error::location(
                40238,
                format!("The field '{name}' must specify one accumulator"),
            ));
        };
        let operator = member.name().to_string_lossy();
        let parsed = Accumulation::parse(&operator, member.value(), specification)?;
        let Some(accumulation) = parsed else {
            return Err(Error::location(
                15952,
                format!("unknown group operator '{operator}'"),
            ));
        };
        Ok(Field {
            name: name.into(),
            accumulation,
        })
    }
}

/// The groups while documents come.
struct Filling<'s> {
    stage: &'s Group,
    keys: ValueSet,
    columns: Vec<Box<dyn Column>>,
    memory: Charge,
    bounds: GroupMemory,
    overflow: Option<Overflow>,
}

impl Filling<'_> {
    /// Takes a document by its key and the values of its fields behind it.
    fn add_plain(&mut self, values: &[Option<RawValue<'_>>]) -> Result<()> {
        let (key, operands) = values.split_first().expect("the first value is the key");
        self.add(key.unwrap_or(RawValue::Null), operands)
    }

    /// Takes rows that another thread has made.
    fn add_rows(&mut self, rows: &GroupRows, shape: &RowShape) -> Result<()> {
        // Where the keys of the rows are among the groups, once they are known to be.
        let mut groups = vec![None; rows.keys().len()];
        rows.each(shape, |place, operands| {
            interrupts::work(UNITS_OF_A_ROW + operands.len())?;
            let key = rows.keys()[place].as_raw();
            if self.overflow.is_some() {
                self.add(key, operands)?;
            } else {
                let group = match groups[place] {
                    Some(group) => group,
                    None => *groups[place].insert(self.group(key)?),
                };
                self.add_to(group, operands)?;
            }
            self.check_memory()
        })
    }

    fn check_memory(&mut self) -> Result<()> {
        if self.memory.bytes() > self.bounds.limit {
            self.bounds.exceeded(&mut self.overflow)?;
        }
        Ok(())
    }

    fn add(&mut self, key: RawValue<'_>, operands: &[Option<RawValue<'_>>]) -> Result<()> {
        if let Some(overflow) = &mut self.overflow
            && overflow.takes(&self.keys, key)?
        {
            return overflow.push(key, |row| {
                for (number, operand) in operands.iter().enumerate() {
                    row.put(number, *operand)?;
                }
                Ok(())
            });
        }
        let group = self.group(key)?;
        self.add_to(group, operands)
    }

    fn add_to(&mut self, group: usize, operands: &[Option<RawValue<'_>>]) -> Result<()> {
        for (column, operand) in self.columns.iter_mut().zip(operands) {
            let grown = column.add(group, *operand)?;
            if grown > 0 {
                self.memory.grow(grown)?;
            }
        }
        Ok(())
    }

    /// Like `add_plain`, for expressions that have to be evaluated.
    fn add_evaluated(&mut self, document: RawDocument<'_>) -> Result<()> {
        let stage = self.stage;
        let mut context = Context::new(document);
        let key = stage.id.evaluate(&mut context)?;
        let key = key.as_raw().unwrap_or(RawValue::Null);
        if let Some(overflow) = &mut self.overflow
            && overflow.takes(&self.keys, key)?
        {
            return overflow.push(key, |row| {
                for (number, field) in stage.fields.iter().enumerate() {
                    let value = field.accumulation.operand.evaluate(&mut context)?;
                    row.put(number, value.as_raw())?;
                }
                Ok(())
            });
        }
        let group = self.group(key)?;
        for (field, column) in stage.fields.iter().zip(&mut self.columns) {
            let value = field.accumulation.operand.evaluate(&mut context)?;
            let grown = column.add(group, value.as_raw())?;
            if grown > 0 {
                self.memory.grow(grown)?;
            }
        }
        Ok(())
    }

    /// The number of the group of a key, which begins if it is new.
    fn group(&mut self, key: RawValue<'_>) -> Result<usize> {
        let (group, grown) = self.keys.insert(key)?;
        if grown > 0 {
            let columns = self.columns.iter_mut();
            for column in columns {
                column.begin_group(key)?;
            }
            self.memory.grow(grown + self.stage.accumulators_bytes())?;
        }
        Ok(group)
    }

    fn finish(self) -> Result<Groups> {
        Ok(Groups {
            keys: self.keys.into_values().enumerate(),
            columns: self.columns,
            memory: self.memory,
            rows: (self.overflow.map(Overflow::finish).transpose()?).map(Box::new),
        })
    }
}

/// The stage as another thread runs it, with those before it: documents become rows.
struct Gathering {
    stage: Arc<Group>,
    before: Vec<Box<dyn RunningStage>>,
}

impl Gathering {
    fn new(stage: &Arc<Group>, before: Vec<Box<dyn RunningStage>>) -> Gathering {
        Gathering {
            stage: Arc::clone(stage),
            before,
        }
    }
}

impl Gather for Gathering {
    fn gather(&mut self, source: &mut dyn Source, rows: &RefCell<GroupRows>) -> Result<()> {
        let Gathering { stage, before } = self;
        let shape = stage.row_shape();
        rows.borrow_mut().collate(&stage.collation);
        Upstream::show_through(before, source, &mut |document| {
            stage.add_row(document, shape, &mut rows.borrow_mut())
        })
    }
}

struct Grouping {
    stage: Arc<Group>,
    groups: Option<Groups>,
}

/// The groups that were not handed out yet: one that was is given up.
struct Groups {
    keys: std::iter::Enumerate<std::vec::IntoIter<Value>>,
    /// One for each field.
    columns: Vec<Box<dyn Column>>,
    memory: Charge,
    /// The rows that are on disk.
    rows: Option<Box<GroupedRows>>,
}

impl RunningStage for Grouping {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let groups = match &mut self.groups {
            Some(groups) => groups,
            none => none.insert(self.stage.fill(upstream)?),
        };
        let Some((group, key)) = groups.keys.next() else {
            return match &mut groups.rows {
                Some(rows) => self.stage.next_on_disk(rows, out),
                None => Ok(false),
            };
        };
        if let Some(rows) = &mut groups.rows {
            while let Some(row) = rows.next_in_memory(group)? {
                group_overflow::add(&row, group, &mut groups.columns, &mut groups.memory)?;
            }
        }
        let written = (self.stage).write(group, key.as_raw(), &mut groups.columns, out)?;
        let given_up = entry_bytes(&key) + self.stage.accumulators_bytes();
        groups.memory.shrink(given_up + written);
        Ok(true)
    }
}

impl Group {
    /// Adds the row of a document. What fails here fails on the stage's own thread, too, in its place.
    fn add_row(
        &self,
        document: RawDocument<'_>,
        shape: &RowShape,
        rows: &mut GroupRows,
    ) -> Result<()> {
        if let Some(plain) = &self.plain {
            let values = plain.find(document)?;
            let (key, operands) = values.split_first().expect("the first value is the key");
            return rows.add(key.unwrap_or(RawValue::Null), |row| {
                let mut numbers = shape.values().iter();
                numbers.try_for_each(|number| group_rows::put(row, operands[*number]))
            });
        }
        let mut context = Context::new(document);
        let key = self.id.evaluate(&mut context)?;
        rows.add(key.as_raw().unwrap_or(RawValue::Null), |row| {
            for number in shape.values() {
                let operand = &self.fields[*number].accumulation.operand;
                group_rows::put(row, operand.evaluate(&mut context)?.as_raw())?;
            }
            Ok(())
        })
    }

    /// Appends the result of a group, which is given up; answers how many bytes its accumulators held.
    fn write(
        &self,
        group: usize,
        key: RawValue<'_>,
        columns: &mut [Box<dyn Column>],
        out: &mut Vec<u8>,
    ) -> Result<usize> {
        let mut given_up = 0;
        let mut document = DocumentBuilder::new(out);
        document.append("_id", key);
        for (field, column) in self.fields.iter().zip(columns) {
            given_up += column.hand_out(group, &field.name, &mut document)?;
        }
        Ok(given_up)
    }

    /// Makes the next group whose documents are all on disk; false if there is none.
    fn next_on_disk(&self, rows: &mut GroupedRows, out: &mut Vec<u8>) -> Result<bool> {
        let Some(first) = rows.next_group()? else {
            return Ok(false);
        };
        let (mut columns, mut memory) = (self.start_columns(), Charge::default());
        for column in &mut columns {
            column.begin_group(group_overflow::group_key(&first)?)?;
        }
        group_overflow::add(&first, 0, &mut columns, &mut memory)?;
        while let Some(row) = rows.next_like(&first)? {
            group_overflow::add(&row, 0, &mut columns, &mut memory)?;
        }
        self.write(0, group_overflow::group_key(&first)?, &mut columns, out)?;
        Ok(true)
    }
}
