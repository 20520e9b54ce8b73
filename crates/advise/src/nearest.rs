//! Finds the known names that are closest to an unknown name, for error messages about keys of
//! prices, regions, fields, machines and options.

/// Maximum number of names that a message offers.
const MAX_OFFERED_NAMES: usize = 3;

/// Returns the names that are closest to `name`, the closest first. There are at most
/// [`MAX_OFFERED_NAMES`] of them, and each differs in at most half of its letters. Case is ignored.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let name = name.to_lowercase();
    let mut scored: Vec<(usize, &str)> = names
        .into_iter()
        .map(|other| (strsim::levenshtein(&name, &other.to_lowercase()), other))
        .filter(|(distance, other)| distance * 2 <= other.len().max(name.len()))
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(MAX_OFFERED_NAMES).map(|(_, other)| other.to_owned()).collect()
}

/// Formats the closest names as the end of a message. Returns an empty text if no name is close.
pub(crate) fn hint<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest_hint(&nearest(name, names))
}

/// Formats the results of [`nearest`] as the end of a message.
pub(crate) fn nearest_hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_names_come_first_and_dissimilar_names_are_left_out() {
        let regions = ["us-east-1", "us-east-2", "eu-west-1", "ap-northeast-2"];
        assert_eq!(nearest("us-esat-1", regions)[0], "us-east-1");
        assert_eq!(nearest("ap-northeast2", regions)[0], "ap-northeast-2");
        assert_eq!(nearest("US-EAST-1", regions)[0], "us-east-1");
        assert_eq!(nearest("FARGATE:2VCPU", ["lambda:512MB", "fargate:2vCPU"]), ["fargate:2vCPU"]);
        assert_eq!(nearest("mars", regions), Vec::<String>::new());
    }
}
