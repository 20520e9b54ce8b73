//! Expands sweeps: a table of a plan that has `each` becomes one table for each combination of the
//! values.
//!
//! `each = { chunk = ["64KiB", "5MiB"], clients = "{clients}" }` replaces `{chunk}` and `{clients}`
//! in all texts of its table; other placeholders stay. The expansion works on the TOML, after
//! `inherit` and before the plan is parsed into values. Called by [`crate::plan`].

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::words::Words;

/// One value for each name.
type Combination = Vec<(String, String)>;

/// Replaces each table with `each`, in any array, by its expansion. `vars` are the plan's
/// variables.
pub(crate) fn expand(table: &mut DeTable<'_>, vars: &Words) -> Result<(), String> {
    for (_, value) in table {
        match value.get_mut() {
            DeValue::Table(below) => expand(below, vars)?,
            DeValue::Array(array) => *array = expand_array(array, vars)?,
            _ => {}
        }
    }
    Ok(())
}

fn expand_array<'i>(array: &DeArray<'i>, vars: &Words) -> Result<DeArray<'i>, String> {
    let mut all = DeArray::new();
    for element in array {
        let DeValue::Table(table) = element.get_ref() else {
            all.push(element.clone());
            continue;
        };
        let mut table = table.clone();
        let each = table.remove("each");
        let combinations =
            each.as_ref().map_or(Ok(vec![Vec::new()]), |each| combinations(each.get_ref(), vars))?;
        if let (Some(name), Some(first)) =
            (table.get("name").and_then(|name| name.get_ref().as_str()), combinations.first())
        {
            check_name(name, first)?;
        }
        for combination in &combinations {
            let mut one = DeValue::Table(table.clone());
            fill(&mut one, combination);
            if let DeValue::Table(one) = &mut one {
                expand(one, vars)?;
            }
            all.push(Spanned::new(element.span(), one));
        }
    }
    Ok(all)
}

/// Checks that the name contains every placeholder, so that the tables of a sweep have different
/// names.
fn check_name(name: &str, combination: &Combination) -> Result<(), String> {
    match combination.iter().find(|(of, _)| !name.contains(&format!("{{{of}}}"))) {
        Some((of, _)) => Err(format!("{name:?} is for each {of}, but has no {{{of}}} in its name")),
        None => Ok(()),
    }
}

/// Returns all combinations of the values in `each`; the last name changes fastest.
fn combinations(each: &DeValue<'_>, vars: &Words) -> Result<Vec<Combination>, String> {
    let names = each.as_table().ok_or("each: write each = { NAME = [VALUE, ...] }")?;
    let mut all = vec![Combination::new()];
    for (name, values) in names {
        let values =
            values_of(values.get_ref(), vars).map_err(|what| format!("each {}: {what}", name.get_ref()))?;
        let name = name.get_ref();
        all = all
            .iter()
            .flat_map(|before| {
                values.iter().map(move |value| {
                    before.iter().cloned().chain([(name.to_string(), value.clone())]).collect()
                })
            })
            .collect();
    }
    Ok(all)
}

/// Returns the values of one name: a list, or the words of a text, which may contain variables.
fn values_of(values: &DeValue<'_>, vars: &Words) -> Result<Vec<String>, String> {
    let wrong = || "a list of texts is needed, or a text with words".to_owned();
    match values {
        DeValue::String(text) => Ok(vars.fill(text)?.split_whitespace().map(str::to_owned).collect()),
        DeValue::Array(list) => {
            list.iter().map(|value| value.get_ref().as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

/// Fills the placeholders of a combination in all texts of `value`.
fn fill(value: &mut DeValue<'_>, combination: &Combination) {
    match value {
        DeValue::String(text) if text.contains('{') => *text = Cow::Owned(fill_text(text, combination)),
        DeValue::Array(array) => array.iter_mut().for_each(|value| fill(value.get_mut(), combination)),
        DeValue::Table(table) => table.iter_mut().for_each(|(_, value)| fill(value.get_mut(), combination)),
        _ => {}
    }
}

/// Returns `text` with the placeholders of a combination replaced. All others, and doubled braces,
/// stay.
fn fill_text(text: &str, combination: &Combination) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = |(name, _): &&(String, String)| {
            rest[1..].strip_prefix(name.as_str()).is_some_and(|after| after.starts_with('}'))
        };
        if let Some((name, value)) = combination.iter().find(named) {
            filled.push_str(value);
            rest = &rest[name.len() + 2..];
        } else {
            let braces = if rest.starts_with("{{") { 2 } else { 1 };
            filled.push_str(&rest[..braces]);
            rest = &rest[braces..];
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use toml::Table;

    fn swept(text: &str) -> Result<Table, String> {
        let mut vars = Words::default();
        vars.set("sizes", "1MiB 2MiB");
        let mut plan = DeTable::parse(text).unwrap();
        expand(plan.get_mut(), &vars)?;
        Ok(Table::deserialize(toml::Deserializer::from(plan)).unwrap())
    }

    #[test]
    fn a_table_becomes_one_per_combination() {
        let found = swept(
            r#"
            [[case]]
            name = "of {size}"
            each = { size = "{sizes}" }
            vars = { bytes = "{size}", other = "{data.big}" }
            [[case.contender]]
            name = "{chunk}, {clients} clients"
            each = { chunk = ["4KiB"], clients = ["1", "8"] }
            command = ["run", "{size}/{chunk}", "{{chunk}} ${{{chunk}}}", "{out"]
            parameters = { concurrency = "{clients}" }
            [[case.contender]]
            name = "once""#,
        );
        let case = |size: &str| {
            let swept = |clients: &str| {
                format!(
                    r#"{{ name = "4KiB, {clients} clients", parameters = {{ concurrency = "{clients}" }},
                    command = ["run", "{size}/4KiB", "{{{{chunk}}}} ${{{{4KiB}}}}", "{{out"] }}"#
                )
            };
            let (one, eight) = (swept("1"), swept("8"));
            format!(
                r#"{{ name = "of {size}", vars = {{ bytes = "{size}", other = "{{data.big}}" }},
                contender = [{one}, {eight}, {{ name = "once" }}] }}"#
            )
        };
        let expected: Table =
            toml::from_str(&format!("case = [{}, {}]", case("1MiB"), case("2MiB"))).unwrap();
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_malformed_sweep_is_refused() {
        for (each, why) in [
            (r#"["4KiB"]"#, "write each ="),
            (r#"{ size = 4 }"#, "each size: a list of texts"),
            (r#"{ size = [4] }"#, "each size: a list of texts"),
            (r#"{ size = "{nothing}" }"#, "{nothing} has no value"),
            (r#"{ chunk = ["1"] }"#, "no {chunk} in its name"),
        ] {
            let error = swept(&format!("[[case]]\nname = \"{{size}}\"\neach = {each}")).unwrap_err();
            assert!(error.contains(why), "{each}: {error}");
        }
    }

    #[test]
    fn a_sweep_without_values_leaves_nothing() {
        let found = swept("[[case]]\nname = \"{size}\"\neach = { size = \"\" }").unwrap();
        assert_eq!(found, toml::from_str("case = []").unwrap());
    }
}
