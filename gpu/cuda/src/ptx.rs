//! The kernels of a module in PTX, as far as a launch needs to know them: their names and parameters.

/// A kernel: its name, and the size of each parameter in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<usize>,
}

/// The kernels of a module; nothing if the text is no PTX.
pub(crate) fn entries(text: &str) -> Option<Vec<Entry>> {
    if !text.contains(".version") || !text.contains(".target") {
        return None;
    }
    let after_each = text.split(".entry").skip(1);
    Some(after_each.filter_map(entry).collect())
}

fn entry(text: &str) -> Option<Entry> {
    let (head, body) = text.split_once('{')?;
    let (name, parameters) = match head.split_once('(') {
        Some((name, rest)) => (name, rest.split_once(')')?.0),
        None => (head, ""),
    };
    let _ = body;
    let sizes = parameters.split(',').filter_map(|parameter| {
        let kind = parameter.split_whitespace().find(|word| word.starts_with('.') && *word != ".param")?;
        let bits: usize = kind.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()?;
        Some(bits / 8)
    });
    Some(Entry { name: name.trim().to_owned(), parameters: sizes.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_read() {
        let text = "// a kernel\n.version 7.0\n.target sm_70\n.visible .entry matmul(\n .param .u64 a,\n \
                    .param .u32 n\n)\n{ ret; }\n.entry nothing { ret; }";
        let matmul = Entry { name: "matmul".to_owned(), parameters: vec![8, 4] };
        let nothing = Entry { name: "nothing".to_owned(), parameters: vec![] };
        assert_eq!(entries(text), Some(vec![matmul, nothing]));
        assert_eq!(entries("no kernel"), None);
    }
}
