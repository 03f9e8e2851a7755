//! A command line that was not understood, in one line: what, which value, what is accepted.

/// clap's message on one line, and its tip as a line of help.
pub(crate) fn in_one_line(refusal: &clap::Error) -> String {
    let text = refusal.render().to_string();
    let first: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let help = tip.map_or_else(String::new, |tip| format!("help: {tip}\n"));
    format!("{}\n{help}", first.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_and_what_is_accepted_share_a_line() {
        let command = clap::Command::new("leeway")
            .arg(clap::Arg::new("policy").long("policy").value_parser(["none", "fifo"]));
        let refusal = command.try_get_matches_from(["leeway", "--policy", "lifo"]).unwrap_err();
        assert_eq!(
            in_one_line(&refusal),
            "error: invalid value 'lifo' for '--policy <policy>' [possible values: none, fifo]\n\
             help: a similar value exists: 'fifo'\n"
        );
    }
}
