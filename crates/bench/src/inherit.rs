//! Completes cases that are `like` an earlier one: copies the fields that a case does not set.
//!
//! The copy works on the TOML, before the plan is parsed into values. In a value, an unset field
//! looks like one that is set to its default. Called by [`crate::plan`].

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Tables of a case that are merged. Any other field of the case replaces the earlier case's.
const MERGED: [&str; 2] = ["vars", "env"];

/// Completes each case that is `like` an earlier one.
pub(crate) fn complete_cases(plan: &mut DeTable<'_>) -> Result<(), String> {
    let Some(DeValue::Array(cases)) = plan.get_mut("case").map(Spanned::get_mut) else { return Ok(()) };
    for index in 0..cases.len() {
        let (earlier, rest) = cases.split_at_mut(index);
        if let Some(DeValue::Table(case)) = rest.first_mut().map(Spanned::get_mut) {
            complete(case, earlier)?;
        }
    }
    Ok(())
}

/// Fills in the fields that `case` lacks, from the earlier case that its `like` names.
fn complete<'i>(case: &mut DeTable<'i>, earlier: &[Spanned<DeValue<'i>>]) -> Result<(), String> {
    let Some(like) = case.remove("like") else { return Ok(()) };
    let like = like.get_ref().as_str().ok_or("like: the name of a case is needed")?;
    let is_model =
        |other: &&DeTable<'i>| other.get("name").and_then(|name| name.get_ref().as_str()) == Some(like);
    let model = earlier.iter().filter_map(|other| other.get_ref().as_table()).find(is_model);
    let model = model.ok_or_else(|| format!("a case is like {like:?}, which is no case before it"))?;
    for (field, value) in model {
        match (case.get_mut(&**field.get_ref()).map(Spanned::get_mut), value.get_ref()) {
            (None, _) => {
                case.insert(field.clone(), value.clone());
            }
            (Some(DeValue::Table(own)), DeValue::Table(others)) if MERGED.contains(&&**field.get_ref()) => {
                for (name, value) in others {
                    own.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use toml::Table;

    const PLAN: &str = r#"
[[case]]
name = "a"
rounds = 7
vars = { key = "one", url = "u" }
[[case]]
name = "b"
like = "a"
title = "second"
vars = { key = "two" }
[[case]]
name = "c"
like = "b"
rounds = 3
"#;

    fn completed(text: &str) -> Result<Table, String> {
        let mut plan = DeTable::parse(text).unwrap();
        complete_cases(plan.get_mut())?;
        Ok(Table::deserialize(toml::Deserializer::from(plan)).unwrap())
    }

    #[test]
    fn unset_fields_of_a_case_come_from_the_case_it_is_like() {
        let expected: Table = toml::from_str(
            r#"
            case = [
                { name = "a", rounds = 7, vars = { key = "one", url = "u" } },
                { name = "b", title = "second", rounds = 7, vars = { key = "two", url = "u" } },
                { name = "c", title = "second", rounds = 3, vars = { key = "two", url = "u" } },
            ]"#,
        )
        .unwrap();
        assert_eq!(completed(PLAN).unwrap(), expected);
    }

    #[test]
    fn a_case_can_only_be_like_an_earlier_one() {
        for other in ["c", "b", "z"] {
            let text = PLAN.replacen("like = \"a\"", &format!("like = {other:?}"), 1);
            assert!(completed(&text).unwrap_err().contains("no case before it"), "{other}");
        }
    }
}
