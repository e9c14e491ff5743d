//! `$group`: one document for each distinct key, in the order in which the keys came first. Keys are equal as
//! BSON values are: 1, 1.0 and NumberLong(1) are one key, Missing counts as Null.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawElement, RawValue, Value};

use super::accumulation::Accumulation;
use super::accumulators::Column;
use super::execution::{Buffer, Running, Upstream};
use super::stage::{Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::expression::{Context, Expression};
use crate::field_path::FieldPath;
use crate::stage_memory::BoundedMemory;
use crate::value_set::{ValueSet, entry_bytes};

#[derive(Debug)]
struct Group {
    specification: Document,
    id: Expression,
    fields: Vec<Field>,
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

    fn values_grouped(&self) -> Option<&FieldPath> {
        let path = self.id.as_path().filter(|_| self.fields.is_empty())?;
        path.root_path()
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn Running> {
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
        let (mut id, mut fields) = (None, Vec::<Field>::new());
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
            if fields.iter().any(|known| known.name == field.name) {
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
            id,
            fields,
        })
    }

    /// Reads all input.
    fn fill(&self, upstream: &mut Upstream<'_, '_>) -> Result<Groups> {
        let mut keys = ValueSet::default();
        let mut columns: Vec<Box<dyn Column>> = (self.fields.iter())
            .map(|field| field.accumulation.start())
            .collect();
        let (mut buffer, mut memory) = (Buffer::default(), BoundedMemory::default());
        while let Some(document) = upstream.read(&mut buffer)? {
            let mut context = Context::new(document);
            let key = self.id.evaluate(&mut context)?;
            let (group, grown) = keys.insert(key.as_raw().unwrap_or(RawValue::Null))?;
            if grown > 0 {
                columns.iter_mut().for_each(|column| column.begin_group());
                memory.grow(grown + self.accumulators_bytes(), "$group")?;
            }
            for (field, column) in self.fields.iter().zip(&mut columns) {
                let value = field.accumulation.operand.evaluate(&mut context)?;
                let grown = column.add(group, value.as_raw())?;
                if grown > 0 {
                    memory.grow(grown, "$group")?;
                }
            }
        }
        Ok(Groups {
            keys: keys.into_values().enumerate(),
            columns,
            memory,
        })
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
        let RawValue::Document(accumulator) = element.value() else {
            return Err(Error::location(
                40234,
                format!("The field '{name}' must be an accumulator object"),
            ));
        };
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
            if operator.starts_with('$') {
                return Err(Error::location(
                    15952,
                    format!("unknown group operator '{operator}'"),
                ));
            }
            return Err(Error::location(
                40234,
                format!("The field '{name}' must be an accumulator object"),
            ));
        };
        Ok(Field {
            name: name.into(),
            accumulation,
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
    memory: BoundedMemory,
}

impl Running for Grouping {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let groups = match &mut self.groups {
            Some(groups) => groups,
            none => none.insert(self.stage.fill(upstream)?),
        };
        let Some((group, key)) = groups.keys.next() else {
            return Ok(false);
        };
        let mut given_up = entry_bytes(&key) + self.stage.accumulators_bytes();
        let mut document = DocumentBuilder::new(out);
        document.append("_id", &key);
        for (field, column) in self.stage.fields.iter().zip(&mut groups.columns) {
            given_up += column.hand_out(group, &field.name, &mut document)?;
        }
        groups.memory.shrink(given_up);
        Ok(true)
    }
}
