//! Rust source as tokens, with their lines: what the rules need to know of the language.
//!
//! Tokens rather than a syntax tree, because a tree ends at a macro: functions inside `proptest! { … }`
//! would be invisible. Comments and the insides of strings are no tokens, so neither can mislead a rule.

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};
use std::ops::Range;

/// One file of Rust, flattened: a bracket knows where its partner stands.
pub(crate) struct Source(Vec<Token>);

struct Token {
    kind: Kind,
    line: usize,
}

enum Kind {
    Word(String),
    Mark(char),
    Literal,
    /// An opening bracket, and the place of the closing one.
    Open(Delimiter, usize),
    /// A closing bracket, and the place of the opening one.
    Close(usize),
}

/// A function with a body, from its `fn` to its last brace.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
    pub(crate) is_test: bool,
}

impl Source {
    pub(crate) fn read(text: &str) -> Result<Self, LexError> {
        let mut tokens = Vec::new();
        flatten(text.parse()?, &mut tokens);
        Ok(Self(tokens))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn line(&self, at: usize) -> usize {
        self.0[at].line
    }

    /// The identifier or keyword at a place, if one stands there.
    pub(crate) fn word(&self, at: usize) -> Option<&str> {
        match &self.0.get(at)?.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_mark(&self, at: usize, mark: char) -> bool {
        matches!(self.0.get(at), Some(Token { kind: Kind::Mark(found), .. }) if *found == mark)
    }

    pub(crate) fn is_literal(&self, at: usize) -> bool {
        matches!(self.0.get(at), Some(Token { kind: Kind::Literal, .. }))
    }

    /// Where the bracket that opens here closes.
    pub(crate) fn closes(&self, at: usize, delimiter: Delimiter) -> Option<usize> {
        match self.0.get(at)?.kind {
            Kind::Open(found, close) if found == delimiter => Some(close),
            _ => None,
        }
    }

    /// The insides of every `#[…]` and `#![…]`.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.len()).filter(|at| self.is_mark(*at, '#')).filter_map(|at| {
            let open = if self.is_mark(at + 1, '!') { at + 2 } else { at + 1 };
            Some(open + 1..self.closes(open, Delimiter::Bracket)?)
        })
    }

    /// Functions with a body, nested ones and those inside macros included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in 0..self.len() {
            // Without a name it is the type of a function; without a body, a promise in a trait.
            let (Some("fn"), Some(name)) = (self.word(at), self.word(at + 1)) else { continue };
            let Some(end) = self.item_end(at).filter(|end| matches!(self.0[*end].kind, Kind::Close(_)))
            else {
                continue;
            };
            let lines = self.line(end) - self.line(at) + 1;
            functions.push(Function {
                name: name.to_owned(),
                line: self.line(at),
                lines,
                is_test: self.is_test(at),
            });
        }
        functions
    }

    /// The stretches that exist only in tests: what follows each `#[cfg(test)]`.
    pub(crate) fn test_only(&self) -> Vec<Range<usize>> {
        let is_cfg_test = |inside: &Range<usize>| {
            self.word(inside.start) == Some("cfg")
                && inside.len() == 4
                && self.word(inside.start + 2) == Some("test")
        };
        let following = |inside: Range<usize>| Some(inside.end..self.item_end(inside.end + 1)? + 1);
        self.attributes().filter(is_cfg_test).filter_map(following).collect()
    }

    /// Where the item ends that stands here: at its closing brace, or at its semicolon.
    fn item_end(&self, start: usize) -> Option<usize> {
        let mut at = start;
        loop {
            match self.0.get(at)?.kind {
                Kind::Open(Delimiter::Brace, close) => return Some(close),
                Kind::Open(_, close) => at = close,
                Kind::Mark(';') => return Some(at),
                Kind::Close(_) => return None,
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether the function at this `fn` carries `#[test]`, or another crate's attribute of that name.
    fn is_test(&self, function: usize) -> bool {
        let mut at = function;
        // Backwards over `pub(crate) async` and the like, then over one attribute after another.
        while let Some(before) = at.checked_sub(1) {
            at = match self.0[before].kind {
                Kind::Word(_) | Kind::Literal => before,
                Kind::Close(open) if self.closes(open, Delimiter::Parenthesis).is_some() => open,
                Kind::Close(open) if open > 0 && self.is_mark(open - 1, '#') => {
                    if self.word(before - 1) == Some("test") {
                        return true;
                    }
                    open - 1
                }
                _ => return false,
            };
        }
        false
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let kind = match tree {
            TokenTree::Ident(word) => Kind::Word(word.to_string()),
            TokenTree::Punct(mark) => Kind::Mark(mark.as_char()),
            TokenTree::Literal(_) => Kind::Literal,
            TokenTree::Group(group) => {
                let open = tokens.len();
                tokens.push(Token { kind: Kind::Open(group.delimiter(), open), line });
                flatten(group.stream(), tokens);
                tokens[open].kind = Kind::Open(group.delimiter(), tokens.len());
                tokens.push(Token { kind: Kind::Close(open), line: group.span_close().start().line });
                continue;
            }
        };
        tokens.push(Token { kind, line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source {
        Source::read(text).unwrap()
    }

    #[test]
    fn functions_are_found_wherever_they_hide() {
        let text = "trait T { fn promise(&self); fn given(&self) -> [u8; 2] {\n [0; 2] } }\n\
                    fn outer(f: fn(u8) -> u8) {\n  fn inner() {}\n}\n\
                    generate! {\n #[test]\n pub(crate) async fn made(x in 0..3) {\n }\n}\n\
                    // fn in_a_comment() {}\nconst S: &str = \"fn in_a_string() {}\";";
        let found: Vec<_> =
            read(text).functions().into_iter().map(|f| (f.name, f.line, f.lines, f.is_test)).collect();
        let expected =
            [("given", 1, 2, false), ("outer", 3, 3, false), ("inner", 4, 1, false), ("made", 8, 2, true)];
        assert_eq!(found, expected.map(|(name, line, lines, test)| (name.to_owned(), line, lines, test)));
    }

    #[test]
    fn only_what_follows_cfg_test_is_test_only() {
        let source = read(
            "#[cfg(test)] use std::mem; fn kept() {} #[cfg(test)] mod tests { fn gone() {} } #[cfg(unix)] fn kept() {}",
        );
        let in_test = |at: usize| source.test_only().iter().any(|range| range.contains(&at));
        let words = |test: bool| {
            let wanted = (0..source.len()).filter(|at| in_test(*at) == test);
            wanted.filter_map(|at| source.word(at)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(true), "use std mem mod tests fn gone");
        assert_eq!(words(false), "cfg test fn kept cfg test cfg unix fn kept");
    }
}
