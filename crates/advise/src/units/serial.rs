//! Reads and writes quantities in TOML and JSON as text with a unit: `"26 ms"`. A bare number is an
//! error. Called by the readers of models and workloads, through serde.

use serde::de::{self, Deserializer, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::parse::{self, QuantityError};
use super::{Bytes, Dollars, DollarsPerHour, Rate, Seconds};

struct Text<T>(fn(&str) -> Result<T, QuantityError>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number and its unit in quotes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Bool(flag), &self))
    }
}

/// Implements serde for quantities: each is read by its parser, and written as text in its unit.
macro_rules! quantities {
    ($($unit:ident, $parse:path, $suffix:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text($parse))
            }
        }
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&format_args!(concat!("{} ", $suffix), self.0))
            }
        }
    )*};
}

quantities! {
    Bytes, parse::bytes, "B";
    Seconds, parse::seconds, "s";
    Rate, parse::rate, "B/s";
    Dollars, parse::money, "USD";
    DollarsPerHour, parse::money_per_hour, "USD/h";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Both {
        size: Bytes,
        first_byte: Seconds,
    }

    #[test]
    fn a_quantity_is_written_as_it_is_read() {
        let both: Both = toml::from_str("size = \"1.5 kB\"\nfirst_byte = \"250 ms\"").unwrap();
        assert_eq!(both, Both { size: Bytes(1_500.0), first_byte: Seconds(0.25) });
        assert_eq!(toml::from_str::<Both>(&toml::to_string(&both).unwrap()).unwrap(), both);
        let error = toml::from_str::<Both>("size = 5\nfirst_byte = \"1 s\"").unwrap_err().to_string();
        assert!(error.contains("`5` has no unit"), "{error}");
    }
}
