//! Trigonometric and hyperbolic functions and their inverses, computed to 130 digits and rounded once, so that the last of
//! the 34 is right but where the exact value lies within 10^-60 or so of the middle between two numbers.
//!
//! Sines and cosines are sums of their series around zero, once a multiple of a right angle has been taken off: for that a
//! multiple of pi has to be known far behind its point, so angles beyond `ANGLE_MAX` have no result. An arc tangent
//! is halved a few times before its series. The others come of these, of exponentials and of logarithms.

use std::cmp::Ordering;

use dec::Context;

use super::Decimal128;
use super::arithmetic::{from_library, to_library};

/// Space for 135 digits, three to a unit.
type Long = dec::Decimal<45>;

const LONG_DIGITS: usize = 130;

/// Beyond Decimal128's exponents and their squares.
const EXPONENT_LIMIT: isize = 99_999;

/// Pi to 140 digits.
const PI: &str = "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679821480865132823066470938446095505822317";

/// The exponent of ten of the largest angle of which sines are computed.
const ANGLE_MAX: i32 = 45;

/// The odd functions give a number below 10 to this power itself: the next term of their series is less than half of its
/// last digit.
const TINY: i32 = -20;

/// An arc tangent is halved so often: the series then wins two and a half digits a term.
const HALVINGS: u32 = 4;

impl Decimal128 {
    /// Whether the functions of angles have a result: whether the angle is small enough, or is none.
    pub fn is_near_angle(&self) -> bool {
        !self.is_finite() || magnitude(self) <= ANGLE_MAX
    }

    /// The sine of an angle in radians. NaN beyond what `is_near_angle` says.
    #[must_use]
    pub fn sin(&self) -> Self {
        self.of_angle(|calculator, angle| calculator.sin_and_cos(angle).0)
    }

    /// The cosine of an angle in radians. NaN beyond what `is_near_angle` says.
    #[must_use]
    pub fn cos(&self) -> Self {
        let is_angle = self.is_finite() && self.is_near_angle();
        if !is_angle {
            return Self::NAN;
        }
        compute(self, |calculator, angle| calculator.sin_and_cos(angle).1)
    }

    /// The tangent of an angle in radians. NaN beyond what `is_near_angle` says.
    #[must_use]
    pub fn tan(&self) -> Self {
        self.of_angle(|calculator, angle| {
            let (sin, cos) = calculator.sin_and_cos(angle);
            calculator.div(sin, cos)
        })
    }

    /// The angle between -pi/2 and pi/2 whose sine it is; NaN outside of -1 and 1.
    #[must_use]
    pub fn asin(&self) -> Self {
        if !self.is_within_one() {
            return Self::NAN;
        }
        self.odd(|calculator, sin| {
            let square = calculator.mul(sin, sin);
            let one = calculator.whole(1);
            let rest = calculator.sub(one, square);
            if rest.is_zero() {
                let right = calculator.right_angle();
                return calculator.with_sign_of(right, sin);
            }
            let cos = calculator.sqrt(rest);
            let tan = calculator.div(sin, cos);
            calculator.atan(tan)
        })
    }

    /// The angle between 0 and pi whose cosine it is; NaN outside of -1 and 1.
    #[must_use]
    pub fn acos(&self) -> Self {
        if !self.is_within_one() {
            return Self::NAN;
        }
        if *self == Self::from_i64(1) {
            return Self::from_i64(0);
        }
        compute(self, |calculator, cos| {
            // tan(angle / 2) = sqrt((1 - cos) / (1 + cos))
            let one = calculator.whole(1);
            let (below, above) = (calculator.sub(one, cos), calculator.add(one, cos));
            if above.is_zero() {
                return calculator.pi();
            }
            let ratio = calculator.div(below, above);
            let tan = calculator.sqrt(ratio);
            let half = calculator.atan(tan);
            calculator.add(half, half)
        })
    }

    /// The angle between -pi/2 and pi/2 whose tangent it is.
    #[must_use]
    pub fn atan(&self) -> Self {
        if self.is_infinite() {
            let right = compute(self, |calculator, _| calculator.right_angle());
            return if self.is_negative() {
                right.negate()
            } else {
                right
            };
        }
        self.odd(Calculator::atan)
    }

    /// The angle of the point whose ordinate is `self`, by the rules of C99 for zeros and infinities.
    #[must_use]
    pub fn atan2(&self, abscissa: &Self) -> Self {
        if self.is_nan() || abscissa.is_nan() {
            return Self::NAN;
        }
        let is_left = abscissa.is_negative();
        let eighths = match (self.is_infinite(), abscissa.is_infinite()) {
            (true, true) if is_left => Some(3),
            (true, true) => Some(1),
            (true, false) => Some(2),
            _ if self.is_zero() || abscissa.is_infinite() => Some(if is_left { 4 } else { 0 }),
            _ if abscissa.is_zero() => Some(2),
            _ => None,
        };
        if eighths == Some(0) {
            return if self.is_negative() {
                Self::ZERO.negate()
            } else {
                Self::ZERO
            };
        }
        let angle = compute(&self.abs(), |calculator, ordinate| match eighths {
            Some(eighths) => {
                let (pi, part) = (calculator.pi(), calculator.whole(eighths));
                let (product, four) = (calculator.mul(pi, part), calculator.whole(4));
                calculator.div(product, four)
            }
            None => {
                let abscissa = Long::from(to_library(&abscissa.abs()));
                let tan = calculator.div(ordinate, abscissa);
                let angle = calculator.atan(tan);
                match is_left {
                    true => {
                        let pi = calculator.pi();
                        calculator.sub(pi, angle)
                    }
                    false => angle,
                }
            }
        });
        if self.is_negative() {
            angle.negate()
        } else {
            angle
        }
    }

    /// The hyperbolic sine.
    #[must_use]
    pub fn sinh(&self) -> Self {
        if self.is_infinite() {
            return *self;
        }
        self.odd(|calculator, n| {
            let (grown, shrunk) = calculator.exponentials(n);
            let (difference, two) = (calculator.sub(grown, shrunk), calculator.whole(2));
            calculator.div(difference, two)
        })
    }

    /// The hyperbolic cosine.
    #[must_use]
    pub fn cosh(&self) -> Self {
        if !self.is_finite() {
            return self.abs();
        }
        compute(self, |calculator, n| {
            let (grown, shrunk) = calculator.exponentials(n);
            let (sum, two) = (calculator.add(grown, shrunk), calculator.whole(2));
            calculator.div(sum, two)
        })
    }

    /// The hyperbolic tangent.
    #[must_use]
    pub fn tanh(&self) -> Self {
        // It differs from 1 by less than half of the last digit.
        if !self.is_nan() && (self.is_infinite() || magnitude(self) > 2) {
            let one = Self::from_i64(1);
            return if self.is_negative() {
                one.negate()
            } else {
                one
            };
        }
        self.odd(|calculator, n| {
            let (grown, shrunk) = calculator.exponentials(n);
            let (difference, sum) = (calculator.sub(grown, shrunk), calculator.add(grown, shrunk));
            calculator.div(difference, sum)
        })
    }

    /// The number whose hyperbolic sine it is.
    #[must_use]
    pub fn asinh(&self) -> Self {
        if self.is_infinite() {
            return *self;
        }
        self.odd(|calculator, n| {
            let size = calculator.abs(n);
            let (square, one) = (calculator.mul(size, size), calculator.whole(1));
            let above = calculator.add(square, one);
            let root = calculator.sqrt(above);
            let sum = calculator.add(size, root);
            let logarithm = calculator.ln(sum);
            calculator.with_sign_of(logarithm, n)
        })
    }

    /// The number from 0 on whose hyperbolic cosine it is; NaN below 1.
    #[must_use]
    pub fn acosh(&self) -> Self {
        let one = Self::from_i64(1);
        if self.is_nan() || *self < one {
            return Self::NAN;
        }
        if self.is_infinite() || *self == one {
            return if self.is_infinite() {
                *self
            } else {
                Self::from_i64(0)
            };
        }
        compute(self, |calculator, n| {
            let (square, one) = (calculator.mul(n, n), calculator.whole(1));
            let below = calculator.sub(square, one);
            let root = calculator.sqrt(below);
            let sum = calculator.add(n, root);
            calculator.ln(sum)
        })
    }

    /// The number whose hyperbolic tangent it is: infinite for 1 and -1, NaN outside of them.
    #[must_use]
    pub fn atanh(&self) -> Self {
        if !self.is_within_one() {
            return Self::NAN;
        }
        if self.abs() == Self::from_i64(1) {
            return if self.is_negative() {
                Self::NEGATIVE_INFINITY
            } else {
                Self::INFINITY
            };
        }
        self.odd(|calculator, n| {
            let one = calculator.whole(1);
            let (above, below) = (calculator.add(one, n), calculator.sub(one, n));
            let ratio = calculator.div(above, below);
            let (logarithm, two) = (calculator.ln(ratio), calculator.whole(2));
            calculator.div(logarithm, two)
        })
    }

    fn is_within_one(&self) -> bool {
        !self.is_nan() && self.abs() <= Self::from_i64(1)
    }

    fn of_angle(&self, of: impl Fn(&mut Calculator, Long) -> Long) -> Self {
        match self.is_finite() && self.is_near_angle() {
            true => self.odd(of),
            false => Self::NAN,
        }
    }

    /// The value of a function that is nearly its argument around zero.
    fn odd(&self, of: impl Fn(&mut Calculator, Long) -> Long) -> Self {
        if self.is_nan() {
            return Self::NAN;
        }
        if magnitude(self) < TINY {
            return *self;
        }
        compute(self, of)
    }
}

/// The exponent of ten of the first digit, plus one; of zero less than any. Of finite numbers.
fn magnitude(n: &Decimal128) -> i32 {
    if n.is_zero() {
        return i32::MIN;
    }
    let long = Long::from(to_library(n));
    long.exponent() + i32::try_from(long.digits()).unwrap_or(0)
}

fn compute(n: &Decimal128, of: impl Fn(&mut Calculator, Long) -> Long) -> Decimal128 {
    let mut calculator = Calculator::new();
    let value = of(&mut calculator, Long::from(to_library(n)));
    from_library(value.to_decimal128())
}

/// Arithmetic with numbers of 130 digits.
struct Calculator(Context<Long>);

impl Calculator {
    fn new() -> Calculator {
        let mut context = Context::<Long>::default();
        let limited = context.set_precision(LONG_DIGITS).is_ok()
            && context.set_max_exponent(EXPONENT_LIMIT).is_ok()
            && context.set_min_exponent(-EXPONENT_LIMIT).is_ok();
        assert!(
            limited,
            "decNumber takes 130 digits and exponents below a million"
        );
        Calculator(context)
    }

    fn whole(&mut self, n: i32) -> Long {
        self.0.from_i32(n)
    }

    fn add(&mut self, mut a: Long, b: Long) -> Long {
        self.0.add(&mut a, &b);
        a
    }

    fn sub(&mut self, mut a: Long, b: Long) -> Long {
        self.0.sub(&mut a, &b);
        a
    }

    fn mul(&mut self, mut a: Long, b: Long) -> Long {
        self.0.mul(&mut a, &b);
        a
    }

    fn div(&mut self, mut a: Long, b: Long) -> Long {
        self.0.div(&mut a, &b);
        a
    }

    fn sqrt(&mut self, mut a: Long) -> Long {
        self.0.sqrt(&mut a);
        a
    }

    fn ln(&mut self, mut a: Long) -> Long {
        self.0.ln(&mut a);
        a
    }

    fn abs(&mut self, mut a: Long) -> Long {
        self.0.abs(&mut a);
        a
    }

    fn negated(&mut self, mut a: Long) -> Long {
        self.0.minus(&mut a);
        a
    }

    fn with_sign_of(&mut self, size: Long, n: Long) -> Long {
        match n.is_negative() {
            true => self.negated(size),
            false => size,
        }
    }

    fn pi(&mut self) -> Long {
        self.0.parse(PI).unwrap_or_else(|_| Long::nan())
    }

    fn right_angle(&mut self) -> Long {
        let (pi, two) = (self.pi(), self.whole(2));
        self.div(pi, two)
    }

    /// e to the power of a number, and to its negative.
    fn exponentials(&mut self, n: Long) -> (Long, Long) {
        let (mut grown, mut shrunk) = (n, self.negated(n));
        self.0.exp(&mut grown);
        self.0.exp(&mut shrunk);
        (grown, shrunk)
    }

    /// The sum of a series: of `first` and of what `next` makes of each term and its place, from 1 on.
    fn sum(&mut self, first: Long, next: impl Fn(&mut Calculator, Long, i32) -> Long) -> Long {
        let (mut sum, mut term) = (first, first);
        for place in 1.. {
            term = next(self, term, place);
            let more = self.add(sum, term);
            if self.0.partial_cmp(&sum, &more) == Some(Ordering::Equal) {
                break;
            }
            sum = more;
        }
        sum
    }

    fn sin_and_cos(&mut self, angle: Long) -> (Long, Long) {
        let right = self.right_angle();
        let mut turns = self.div(angle, right);
        self.0.round(&mut turns);
        let taken = self.mul(turns, right);
        let rest = self.sub(angle, taken);
        let square = self.mul(rest, rest);
        // Each term of x - x^3/3! + .. and of 1 - x^2/2! + .. has two more factors than the one before.
        let of_series = |calculator: &mut Calculator, first: Long, offset: i32| {
            calculator.sum(first, |calculator, term, place| {
                let high = 2 * place + offset;
                let (grown, factors) = (
                    calculator.mul(term, square),
                    calculator.whole(high * (high - 1)),
                );
                let next = calculator.div(grown, factors);
                calculator.negated(next)
            })
        };
        let sin = of_series(self, rest, 1);
        let one = self.whole(1);
        let cos = of_series(self, one, 0);
        let (mut quadrant, four) = (turns, self.whole(4));
        self.0.rem(&mut quadrant, &four);
        // A context of its own, because the status of this one says that something was rounded.
        let quadrant = Context::<Long>::default().try_into_i32(quadrant);
        let quadrant = quadrant.expect("a remainder of 4 is a small whole number");
        match quadrant.rem_euclid(4) {
            0 => (sin, cos),
            1 => (cos, self.negated(sin)),
            2 => (self.negated(sin), self.negated(cos)),
            _ => (self.negated(cos), sin),
        }
    }

    fn atan(&mut self, tan: Long) -> Long {
        let (size, one) = (self.abs(tan), self.whole(1));
        let is_steep = self.0.partial_cmp(&size, &one) == Some(Ordering::Greater);
        let mut small = if is_steep { self.div(one, size) } else { size };
        // tan(a / 2) = tan(a) / (1 + sqrt(1 + tan(a)^2))
        for _ in 0..HALVINGS {
            let square = self.mul(small, small);
            let above = self.add(one, square);
            let root = self.sqrt(above);
            let divisor = self.add(one, root);
            small = self.div(small, divisor);
        }
        let square = self.mul(small, small);
        let square = self.negated(square);
        // The terms of x - x^3/3 + x^5/5 .. have no simple ratio: the powers are kept and divided.
        let (mut sum, mut power) = (small, small);
        for place in 1.. {
            power = self.mul(power, square);
            let odd = self.whole(2 * place + 1);
            let term = self.div(power, odd);
            let more = self.add(sum, term);
            if self.0.partial_cmp(&sum, &more) == Some(Ordering::Equal) {
                break;
            }
            sum = more;
        }
        let times = self.whole(1 << HALVINGS);
        let angle = self.mul(sum, times);
        let angle = match is_steep {
            true => {
                let right = self.right_angle();
                self.sub(right, angle)
            }
            false => angle,
        };
        self.with_sign_of(angle, tan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal128 {
        Decimal128::parse(text).unwrap()
    }

    #[test]
    fn zeros_and_infinities_go_by_the_rules_of_c99() {
        let (zero, right) = ("0", "1.570796326794896619231321691639751");
        let (pi, eighth) = (
            "3.141592653589793238462643383279503",
            "0.7853981633974483096156608458198757",
        );
        for (y, x, wanted) in [
            ("0", "1", zero),
            ("-0", "1", "-0"),
            ("0", "-0", pi),
            ("-0", "-1", "-3.141592653589793238462643383279503"),
            ("1", "0", right),
            ("Infinity", "5", right),
            ("5", "Infinity", zero),
            ("5", "-Infinity", pi),
            ("Infinity", "Infinity", eighth),
            (
                "Infinity",
                "-Infinity",
                "2.356194490192344928846982537459627",
            ),
        ] {
            let found = d(y).atan2(&d(x));
            assert_eq!(found, d(wanted), "{y} {x}: {found}");
            assert_eq!(found.is_negative(), wanted.starts_with('-'), "{y} {x}");
        }
        assert!(d("NaN").atan2(&d("1")).is_nan());
        assert_eq!(d("-Infinity").atan(), d(right).negate());
        assert_eq!(d("-Infinity").sinh(), d("-Infinity"));
        assert_eq!(d("-Infinity").cosh(), d("Infinity"));
        assert_eq!(d("-Infinity").tanh(), d("-1"));
        assert_eq!(d("1").atanh(), d("Infinity"));
        assert_eq!(d("20000").cosh(), d("Infinity"));
        assert_eq!(d("1").acosh(), d(zero));
        assert_eq!(d("1").acos(), d(zero));
        assert_eq!(d("-1").acos(), d(pi));
        assert_eq!(d("-1").asin(), d(right).negate());
        assert!(d("0.5").acosh().is_nan() && d("1.5").asin().is_nan());
    }

    #[test]
    fn an_angle_that_is_too_large_has_no_sine() {
        assert!(d("9E+44").is_near_angle() && !d("9E+44").sin().is_nan());
        assert!(!d("1E+45").is_near_angle());
        assert!(d("1E+45").sin().is_nan() && d("1E+6000").cos().is_nan());
        assert!(d("Infinity").is_near_angle() && d("Infinity").tan().is_nan());
    }

    #[test]
    fn numbers_near_zero_are_their_own_sines() {
        for text in ["1E-6176", "-3.5E-400", "1E-30", "0E+6000", "-0"] {
            let n = d(text);
            for value in [
                n.sin(),
                n.tan(),
                n.asin(),
                n.atan(),
                n.sinh(),
                n.tanh(),
                n.asinh(),
                n.atanh(),
            ] {
                assert_eq!(value, n, "{text}");
            }
            assert_eq!((n.cos(), n.cosh()), (d("1"), d("1")));
        }
    }
}
