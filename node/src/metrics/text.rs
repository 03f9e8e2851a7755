//! The two formats of the text: `OpenMetrics`, and the classic one for readers that do not ask for it.
//!
//! They differ in what a family is called: in the classic one a counter's has the suffix of its sample, `_total`; and in that the
//! classic one knows neither units nor families that only inform.

/// What a reader who wants `OpenMetrics` says, and is told.
pub(crate) const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What anybody else is told.
pub(crate) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The classic format of an `OpenMetrics` text.
pub(crate) fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // The help of a family comes before its kind, which decides what both are called.
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            if let Some((_, words)) = help.take() {
                text += &format!("# HELP {name}{suffix} {words}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_called_what_its_samples_are_called() {
        let open = "# HELP a Tasks.\n# TYPE a counter\na_total{x=\"1\"} 2\n# HELP b_seconds Time.\n# TYPE b_seconds gauge\n\
                    # UNIT b_seconds seconds\nb_seconds +Inf\n# HELP c Version.\n# TYPE c info\nc_info{v=\"1\"} 1\n# EOF\n";
        let text = "# HELP a_total Tasks.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n# HELP b_seconds Time.\n\
                    # TYPE b_seconds gauge\nb_seconds +Inf\n# HELP c_info Version.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n";
        assert_eq!(classic(open), text);
    }
}
