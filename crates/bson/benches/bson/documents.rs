//! The documents of the benchmark, made from a seed.

/// A field's value before it is BSON.
#[derive(Clone)]
pub enum Field {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    Text(String),
    List(Vec<Field>),
}

pub struct Scenario {
    pub name: &'static str,
    pub fields: Vec<(String, Field)>,
}

pub fn scenarios() -> Vec<Scenario> {
    let mut seed = Seed(0x5EED);
    let mut scenario = |name, kinds: &[fn(usize, &mut Seed) -> Field], count: usize| Scenario {
        name,
        fields: (0..count)
            .map(|i| {
                (
                    format!("field{i}"),
                    kinds[i * kinds.len() / count.max(1) % kinds.len()](i, &mut seed),
                )
            })
            .collect(),
    };
    let mixed: &[fn(usize, &mut Seed) -> Field] = &[|i, seed| match i % 5 {
        0 => Field::Int32(seed.next() as i32),
        1 => Field::Text(seed.text(20)),
        2 => Field::Double(seed.next() as f64 / 1e6),
        3 => Field::Boolean(seed.next() % 2 == 0),
        _ => Field::Int64(seed.next() as i64),
    }];
    let string80: &[fn(usize, &mut Seed) -> Field] = &[|i, seed| {
        if i % 5 == 4 {
            Field::Int32(seed.next() as i32)
        } else {
            Field::Text(seed.text(40))
        }
    }];
    let array: &[fn(usize, &mut Seed) -> Field] = &[|_, seed| {
        let value = |i: usize, seed: &mut Seed| match i % 3 {
            0 => Field::Int32(seed.next() as i32),
            1 => Field::Text(seed.text(5)),
            _ => Field::Double(seed.next() as f64 / 1e6),
        };
        Field::List((0..100).map(|i| value(i, seed)).collect())
    }];
    vec![
        scenario("mixed10", mixed, 10),
        scenario("mixed50", mixed, 50),
        scenario("mixed100", mixed, 100),
        scenario("string80", string80, 50),
        scenario("string100", &[|_, seed| Field::Text(seed.text(50))], 50),
        scenario(
            "numeric",
            &[
                |_, seed| Field::Int32(seed.next() as i32),
                |_, seed| Field::Int64(seed.next() as i64),
            ],
            50,
        ),
        scenario("arrays", array, 20),
        scenario(
            "100KB",
            &[
                |_, seed| Field::Text(seed.text(2040)),
                |_, seed| Field::Int32(seed.next() as i32),
            ],
            100,
        ),
        scenario(
            "1MB",
            &[
                |_, seed| Field::Text(seed.text(2080)),
                |_, seed| Field::Int32(seed.next() as i32),
            ],
            1000,
        ),
    ]
}

/// SplitMix64.
pub struct Seed(u64);

impl Seed {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn text(&mut self, len: usize) -> String {
        (0..len)
            .map(|_| char::from(b'a' + (self.next() % 26) as u8))
            .collect()
    }
}
