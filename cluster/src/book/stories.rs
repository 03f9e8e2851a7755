//! What a master makes of what agents tell it.

use super::*;
use wire::link::Gpu;
use wire::report::Figures;

fn hello(name: &str) -> Hello {
    let gpu = Gpu { gpu: 0, name: "simulated".to_owned(), memory_total: 24 << 30 };
    Hello { name: name.to_owned(), gpus: vec![gpu] }
}

fn record(sequence: u16, free: u32, missed: bool) -> Vec<u8> {
    let figures = Figures { sequence, memory_free_mib: free, float_sum_ms: None, float_least_ms: None };
    let record = Record {
        gpu: 0,
        missed,
        memory_full: false,
        core_full: false,
        figures: (!missed).then_some(figures),
    };
    let mut bytes = Vec::new();
    record.write(&mut bytes);
    bytes
}

fn joined(book: &mut Book, name: &str) -> (Session, mpsc::Receiver<FromMaster>) {
    let (sender, receiver) = mpsc::channel(TOLD_QUEUED_MAX);
    (book.attach("", &hello(name), sender), receiver)
}

fn ranked(book: &mut Book) -> Vec<NodeRank> {
    book.ranked(clock::now(), Strategy::Spread)
}

#[test]
fn a_node_is_in_the_list_from_its_first_report_on() {
    let mut book = Book::new();
    let (session, _stream) = joined(&mut book, "a");
    assert!(ranked(&mut book).is_empty());
    book.report(session, &record(1, 1000, false)).unwrap();
    let line = ranked(&mut book).remove(0);
    assert_eq!((line.node.as_str(), line.gpu_memory_free_bytes, line.provisionable), ("a", 1000 << 20, true));
    book.report(session, &record(2, 0, true)).unwrap();
    let line = ranked(&mut book).remove(0);
    assert_eq!((line.state.as_str(), line.gpu_memory_free_bytes), ("missed", 1000 << 20));
    book.report(session, &[]).unwrap();
    assert_eq!(ranked(&mut book)[0].state, "missed", "a heartbeat changes nothing");
    book.report(session, &record(0, 7, false)).unwrap();
    assert_eq!(ranked(&mut book)[0].state, "missed", "old news");
    book.report(session, &record(3, 7, false)).unwrap();
    assert_eq!(ranked(&mut book)[0].state, "ready");
}

#[test]
fn an_agent_that_comes_again_counts_from_the_beginning_and_its_first_stream_ends() {
    let mut book = Book::new();
    let (first, mut stream) = joined(&mut book, "a");
    book.report(first, &record(900, 1000, false)).unwrap();
    let (second, _stream) = joined(&mut book, "a");
    assert_eq!(first.node, second.node);
    assert!(stream.try_recv().is_err() && stream.is_closed());
    book.detach(first);
    assert_eq!(book.connected(), 1, "the end of the first stream is old news");
    book.report(second, &record(1, 5, false)).unwrap();
    book.report(first, &record(901, 1000, false)).unwrap();
    assert_eq!(ranked(&mut book)[0].gpu_memory_free_bytes, 5 << 20);
}

#[test]
fn what_comes_late_from_a_removed_node_is_nobody_s() {
    let mut book = Book::new();
    let (removed, _stream) = joined(&mut book, "a");
    book.keep_only(|name| name != "a");
    let (session, _stream) = joined(&mut book, "b");
    assert_ne!(removed.node, session.node, "no number is given twice");
    book.report(session, &record(1, 5, false)).unwrap();
    book.report(removed, &record(2, 1000, false)).unwrap();
    assert_eq!(ranked(&mut book)[0].gpu_memory_free_bytes, 5 << 20);
}

#[test]
fn a_node_that_the_engine_does_not_use_says_why_and_comes_last() {
    let mut book = Book::new();
    let _streams: Vec<_> = ["a", "b"]
        .map(|name| {
            let (sender, receiver) = mpsc::channel(TOLD_QUEUED_MAX);
            let session = book.attach(name, &hello(name), sender);
            book.report(session, &record(1, 1000, false)).unwrap();
            receiver
        })
        .into();
    book.set_unusable(HashMap::from([("a".to_owned(), "it is drained".to_owned())]));
    book.set_placed(HashMap::from([("b".to_owned(), vec!["infer".to_owned()])]));
    let lines = ranked(&mut book);
    let told = |line: &NodeRank| (line.node.clone(), line.state.clone(), line.services.len());
    assert_eq!(told(&lines[0]), ("b".to_owned(), "ready".to_owned(), 1));
    assert_eq!(told(&lines[1]), ("a".to_owned(), "barred".to_owned(), 0));
    assert_eq!((lines[1].provisionable, lines[1].reason.as_deref()), (false, Some("it is drained")));
    book.set_known(Some(HashSet::from(["a".to_owned()])));
    assert!(ranked(&mut book).iter().all(|line| line.state == "barred"), "swarm knows no b");
}

#[test]
fn who_may_no_longer_report_is_gone_at_once() {
    let mut book = Book::new();
    let (session, stream) = joined(&mut book, "a");
    book.report(session, &record(1, 1000, false)).unwrap();
    book.keep_only(|name| name != "a");
    assert!(stream.is_closed() && book.list.is_empty() && book.connected() == 0);
}
