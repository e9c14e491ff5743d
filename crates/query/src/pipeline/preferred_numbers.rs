//! Preferred numbers: the series by which `$bucketAuto` rounds boundaries. Renard's series (ISO 3), the E series of electronics (IEC
//! 60063), 1-2-5, and the powers of two.

use quarry_bson::{RawValue, Value};

/// A series of preferred numbers.
#[derive(Debug, Clone)]
pub enum Series {
    /// The numbers of one decade, ascending, each of the same power of ten as the others.
    Decade(Vec<f64>),
    /// 1, 2, 4, 8 ...
    PowersOfTwo,
}

const R80: [u16; 80] = [
    100, 103, 106, 109, 112, 115, 118, 122, 125, 128, 132, 136, 140, 145, 150, 155, 160, 165, 170,
    175, 180, 185, 190, 195, 200, 206, 212, 218, 224, 230, 236, 243, 250, 258, 265, 272, 280, 290,
    300, 307, 315, 325, 335, 345, 355, 365, 375, 387, 400, 412, 425, 437, 450, 462, 475, 487, 500,
    515, 530, 545, 560, 580, 600, 615, 630, 650, 670, 690, 710, 730, 750, 775, 800, 825, 850, 875,
    900, 925, 950, 975,
];
const E24: [u16; 24] = [
    10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91,
];

impl Series {
    /// The series of that name.
    pub fn of(name: &str) -> Option<Series> {
        let every = |numbers: &[u16], step: usize| {
            let chosen = numbers.iter().step_by(step);
            Series::Decade(chosen.map(|number| f64::from(*number)).collect())
        };
        Some(match name {
            "POWERSOF2" => Series::PowersOfTwo,
            "1-2-5" => Series::Decade(vec![10.0, 20.0, 50.0]),
            // A coarser series leaves out numbers of a finer one.
            "R80" => every(&R80, 1),
            "R40" => every(&R80, 2),
            "R20" => every(&R80, 4),
            "R10" => every(&R80, 8),
            "R5" => every(&R80, 16),
            "E24" => every(&E24, 1),
            "E12" => every(&E24, 2),
            "E6" => every(&E24, 4),
            "E48" => fine(48),
            "E96" => fine(96),
            "E192" => fine(192),
            _ => return None,
        })
    }

    /// The least preferred number above a number; zero stays zero.
    pub fn above(&self, value: RawValue<'_>) -> Value {
        let number = value.as_f64_lossy().unwrap_or(0.0);
        if number <= 0.0 || !number.is_finite() {
            return RawValue::Double(number).to_value();
        }
        let rounded = match self {
            Series::PowersOfTwo => power_of_two(number, |power| power > number, 1.0),
            Series::Decade(series) => {
                let scale = scale_of(series, number);
                let found = series.iter().map(|preferred| scaled(*preferred, scale));
                let above = found.into_iter().find(|preferred| *preferred > number);
                above.unwrap_or_else(|| scaled(series[0], scale + 1))
            }
        };
        self.shown(rounded)
    }

    /// The greatest preferred number below a number; zero stays zero.
    pub fn below(&self, value: RawValue<'_>) -> Value {
        let number = value.as_f64_lossy().unwrap_or(0.0);
        if number <= 0.0 || !number.is_finite() {
            return RawValue::Double(number).to_value();
        }
        let rounded = match self {
            Series::PowersOfTwo => power_of_two(number, |power| power < number, -1.0),
            Series::Decade(series) => {
                let scale = scale_of(series, number);
                let found = series
                    .iter()
                    .rev()
                    .map(|preferred| scaled(*preferred, scale));
                let below = found.into_iter().find(|preferred| *preferred < number);
                below.unwrap_or_else(|| scaled(series[series.len() - 1], scale - 1))
            }
        };
        self.shown(rounded)
    }

    /// Powers of two are whole numbers where they can be, all else is a Double.
    fn shown(&self, rounded: f64) -> Value {
        let whole = RawValue::Double(rounded).as_i64_exact();
        match (self, whole) {
            (Series::PowersOfTwo, Some(whole)) => RawValue::Int64(whole).to_value(),
            _ => RawValue::Double(rounded).to_value(),
        }
    }
}

/// A series of more than 24 numbers a decade: powers of the root of ten, rounded to three digits.
fn fine(count: u16) -> Series {
    let number = |place: u16| {
        let exact = 10_f64.powf(f64::from(place) / f64::from(count));
        match (exact * 100.0).round() {
            // The one number of the standard that is not what rounding gives.
            919.0 => 920.0,
            rounded => rounded,
        }
    };
    Series::Decade((0..count).map(number).collect())
}

/// The power of ten by which the series holds a number between its first and that of the next decade.
fn scale_of(series: &[f64], number: f64) -> i32 {
    let first = series[0];
    let mut scale = (number / first).log10().floor() as i32;
    // The logarithm may be off by its last digit.
    while scaled(first, scale + 1) <= number {
        scale += 1;
    }
    while scaled(first, scale) > number {
        scale -= 1;
    }
    scale
}

/// A division is exact where the result is a number of few digits, and a product with a negative power of ten is not.
fn scaled(number: f64, scale: i32) -> f64 {
    match scale < 0 {
        true => number / 10_f64.powi(-scale),
        false => number * 10_f64.powi(scale),
    }
}

/// The power of two next to a number for which `is_beyond` holds.
fn power_of_two(number: f64, is_beyond: impl Fn(f64) -> bool, step: f64) -> f64 {
    let mut exponent = number.log2().floor() - step;
    while !is_beyond(exponent.exp2()) {
        exponent += step;
    }
    exponent.exp2()
}
