//! Cases that are `like` an earlier one: what they do not say is copied from it.
//!
//! This happens before a plan is a value, because there a field that was not written and one with
//! its default look alike. Called by [`crate::plan`].

use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Tables of a case that are merged; every other field replaces that of the earlier case.
const MERGED: [&str; 2] = ["vars", "env"];

/// Parses a plan and completes each case that is `like` an earlier one.
///
/// # Errors
/// The text is no plan, or a case is like one that does not come before it.
pub(crate) fn resolve<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut plan: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if let Some(Value::Array(cases)) = plan.get_mut("case") {
        for index in 0..cases.len() {
            let (earlier, rest) = cases.split_at_mut(index);
            if let Some(case) = rest.first_mut().and_then(Value::as_table_mut) {
                complete(case, earlier)?;
            }
        }
    }
    plan.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
}

/// Adds to `case` what it does not have of the one that it is like.
fn complete(case: &mut Table, earlier: &[Value]) -> Result<(), String> {
    let Some(like) = case.remove("like") else { return Ok(()) };
    let model = earlier.iter().filter_map(Value::as_table).find(|other| other.get("name") == Some(&like));
    let model = model.ok_or_else(|| format!("a case is like {like}, which is no case before it"))?;
    for (field, value) in model {
        match case.get_mut(field) {
            None => {
                case.insert(field.clone(), value.clone());
            }
            Some(Value::Table(own)) if MERGED.contains(&field.as_str()) => {
                for (name, value) in value.as_table().into_iter().flatten() {
                    own.entry(name).or_insert_with(|| value.clone());
                }
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn what_a_case_does_not_say_is_that_of_the_case_it_is_like() {
        let plan: Table = resolve(PLAN).unwrap();
        let expected: Table = toml::from_str(
            r#"
            case = [
                { name = "a", rounds = 7, vars = { key = "one", url = "u" } },
                { name = "b", title = "second", rounds = 7, vars = { key = "two", url = "u" } },
                { name = "c", title = "second", rounds = 3, vars = { key = "two", url = "u" } },
            ]"#,
        )
        .unwrap();
        assert_eq!(plan, expected);
    }

    #[test]
    fn a_case_can_only_be_like_an_earlier_one() {
        for other in ["c", "b", "z"] {
            let text = PLAN.replacen("like = \"a\"", &format!("like = {other:?}"), 1);
            assert!(resolve::<Table>(&text).unwrap_err().contains("no case before it"), "{other}");
        }
    }
}
