//! Parses an offer file as a stream and passes each product and term to [`Offer`], one at a time.
//!
//! The whole document is never in memory, and parts that are not needed are skipped.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;
use std::marker::PhantomData;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor,
};

use super::{Offer, Product, Term};

/// Reads a whole offer file into `offer`.
pub(super) fn read(reader: impl BufRead, offer: &mut Offer<'_>) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_reader(reader);
    Document(offer).deserialize(&mut json)?;
    json.end()
}

/// Parser of the outermost object of the file.
struct Document<'a, 'r>(&'a mut Offer<'r>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an offer file of the AWS Price List")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let offer = self.0;
        let mut products = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "offerCode" => offer.code = Some(map.next_value()?),
                "publicationDate" => offer.published = Some(map.next_value()?),
                "products" => {
                    if offer.code.is_none() {
                        return Err(A::Error::custom("`products` comes before `offerCode`"));
                    }
                    map.next_value_seed(each(|sku, product: Product| offer.add_product(sku, &product)))?;
                    products = true;
                }
                "terms" if !products => return Err(A::Error::custom("`terms` comes before `products`")),
                "terms" => map.next_value_seed(Terms(offer))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Parser of the object `terms`: on-demand, reserved and other terms.
struct Terms<'a, 'r>(&'a mut Offer<'r>);

impl<'de> DeserializeSeed<'de> for Terms<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Terms<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the terms of an offer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(kind) = map.next_key::<String>()? {
            if kind == "OnDemand" {
                let take = |sku: String, terms: HashMap<String, Term>| self.0.add_term(&sku, &terms);
                map.next_value_seed(each(take))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Parser of an object that passes each entry to a function as soon as the entry is parsed.
struct EntryVisitor<T, F>(F, PhantomData<T>);

fn each<T, F: FnMut(String, T)>(take: F) -> EntryVisitor<T, F> {
    EntryVisitor(take, PhantomData)
}

impl<'de, T: DeserializeOwned, F: FnMut(String, T)> DeserializeSeed<'de> for EntryVisitor<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned, F: FnMut(String, T)> Visitor<'de> for EntryVisitor<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an entry for each SKU")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((sku, value)) = map.next_entry()? {
            (self.0)(sku, value);
        }
        Ok(())
    }
}
