//! The query of a request.

use super::error::ApiError;

/// A parameter that a resource has.
pub struct Parameter {
    pub name: &'static str,
    pub help: &'static str,
    pub is_required: bool,
}

/// The parameters of a request, each known to its resource and given once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApiQuery(Vec<(String, String)>);

impl ApiQuery {
    /// Parses the part of the path after `?` (application/x-www-form-urlencoded).
    ///
    /// # Errors
    /// A parameter is unknown, given twice or missing.
    pub fn parse(text: &str, parameters: &[Parameter]) -> Result<Self, ApiError> {
        let mut values: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if !parameters.iter().any(|known| known.name == name) {
                let known: Vec<_> = parameters.iter().map(|known| known.name).collect();
                let known = if known.is_empty() {
                    "there are none".to_owned()
                } else {
                    format!("known are {}", known.join(", "))
                };
                return Err(ApiError::new(400, format!("unknown parameter '{name}': {known}")));
            }
            if values.iter().any(|(other, _)| *other == name) {
                return Err(ApiError::new(400, format!("parameter '{name}' is given twice")));
            }
            values.push((name.into_owned(), value.into_owned()));
        }
        let query = Self(values);
        let mut required = parameters.iter().filter(|known| known.is_required);
        match required.find(|known| query.get(known.name).is_none()) {
            Some(missing) => {
                Err(ApiError::new(400, format!("parameter '{}' is missing", missing.name)))
            }
            None => Ok(query),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A number.
    ///
    /// # Errors
    /// The value is none.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        self.get(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| ApiError::new(400, format!("{name}: '{text}' is not a number")))
            })
            .transpose()
    }

    /// One of these words.
    ///
    /// # Errors
    /// The value is none of them.
    pub fn one_of(&self, name: &str, words: &[&str]) -> Result<Option<&str>, ApiError> {
        match self.get(name) {
            Some(word) if !words.contains(&word) => {
                let words = words.join(", ");
                Err(ApiError::new(400, format!("{name}: '{word}' is none of {words}")))
            }
            word => Ok(word),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// The value is neither.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.get(name).map(|text| text.parse().map_err(|_| bad_value(name, text))).transpose()
    }
}

fn bad_value(name: &str, text: &str) -> ApiError {
    ApiError::new(400, format!("{name}: '{text}' is not true or false"))
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn parameters_are_decoded_and_checked() {
        let events = find("GET", "/v1/events").expect("a resource");
        let query = ApiQuery::parse("after=%31%32&follow=false", events.parameters).expect("valid");
        assert_eq!(query.number("after"), Ok(Some(12)));
        assert_eq!(query.flag("follow"), Ok(Some(false)));
        let problem = |text| ApiQuery::parse(text, events.parameters).expect_err("invalid").text;
        assert_eq!(problem("x=1"), "unknown parameter 'x': known are after, follow, event");
        assert_eq!(problem("after=1&after=2"), "parameter 'after' is given twice");
        let query = ApiQuery::parse("after=&follow=1", events.parameters).expect("known");
        assert_eq!(query.number("after").expect_err("none").text, "after: '' is not a number");
        assert!(query.flag("follow").is_err());
        let nodes = find("GET", "/v1/nodes").expect("a resource");
        let query = ApiQuery::parse("kind=switch", nodes.parameters).expect("known");
        assert_eq!(query.one_of("kind", &["switch", "ca"]), Ok(Some("switch")));
        assert_eq!(query.one_of("node", &[]), Ok(None));
        let problem = query.one_of("kind", &["ca", "router"]).expect_err("not one of them");
        assert_eq!(problem.text, "kind: 'switch' is none of ca, router");
    }
}
