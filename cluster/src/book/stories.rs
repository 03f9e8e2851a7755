//! What a master makes of what agents tell it.

use super::*;
use std::collections::HashSet;
use wire::link::Gpu;
use wire::report::Figures;

fn hello(name: &str) -> Hello {
    let gpu = Gpu { gpu: 0, name: "simulated".to_owned(), memory_total: 24 << 30 };
    Hello { name: name.to_owned(), gpus: vec![gpu] }
}

fn record(sequence: u16, free: u32, missed: bool) -> Vec<u8> {
    let figures = Figures { sequence, memory_free_mib: free, ..Figures::default() };
    let mut bytes = Vec::new();
    Record { missed, figures: (!missed).then_some(figures), ..Record::default() }.write(&mut bytes);
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
    let drained = HashMap::from([("a".to_owned(), "it is drained".to_owned())]);
    book.set_view(clock::now(), View { unusable: drained.clone(), ..View::default() });
    book.set_placed(HashMap::from([("b".to_owned(), vec!["infer".to_owned()])]));
    let lines = ranked(&mut book);
    let told = |line: &NodeRank| (line.node.clone(), line.state.clone(), line.services.len());
    assert_eq!(told(&lines[0]), ("b".to_owned(), "ready".to_owned(), 1));
    assert_eq!(told(&lines[1]), ("a".to_owned(), "barred".to_owned(), 0));
    assert_eq!((lines[1].provisionable, lines[1].reason.as_deref()), (false, Some("it is drained")));
    let known = Some(HashSet::from(["a".to_owned()]));
    book.set_view(clock::now(), View { unusable: drained, known, ..View::default() });
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

#[test]
fn a_node_hears_what_concerns_it_and_once() {
    let mut book = Book::new();
    let (sender, mut stream) = mpsc::channel(TOLD_QUEUED_MAX);
    let session = book.attach("a", &hello("a"), sender);
    let welcome = Welcome { masters: vec!["m:1".to_owned()], led: true, lost: false };
    book.welcome(session, &welcome);
    let (start, lost) = (clock::now(), View { down: vec!["a".to_owned()], ..View::default() });
    let later = start + Span::from_secs(7);
    assert_eq!(book.lost_for(start, "a"), None);
    for now in [start, later] {
        book.set_view(now, lost.clone());
        book.welcome_all(&welcome);
    }
    assert_eq!(book.lost_for(later, "a"), Some(Span::from_secs(7)));
    book.set_view(later, View::default());
    book.welcome_all(&welcome);
    assert_eq!(book.lost_for(later, "a"), None);
    book.withdraw(session.node, "p");
    book.farewell();
    let mut told = std::iter::from_fn(|| stream.try_recv().ok()?.told);
    for lost in [false, true, false] {
        assert_eq!(
            told.next(),
            Some(Told::Welcome(Welcome { lost, ..welcome.clone() })),
            "lost, and there again"
        );
    }
    assert_eq!(told.next(), Some(Told::Withdrawn(Withdrawn { placement: "p".to_owned() })));
    assert_eq!((told.next(), told.next()), (Some(Told::Farewell(Farewell {})), None));
}

#[test]
fn a_node_that_comes_while_its_master_stops_hears_the_farewell_alone() {
    let mut book = Book::new();
    book.farewell();
    let (session, mut stream) = joined(&mut book, "a");
    book.welcome(session, &Welcome { led: true, ..Welcome::default() });
    assert_eq!(stream.try_recv().unwrap().told, Some(Told::Farewell(Farewell {})));
    assert!(stream.try_recv().is_err() && stream.is_closed() && !book.holds(session));
}

#[test]
fn a_node_that_the_engine_knows_no_more_is_lost() {
    let known = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect::<HashSet<String>>());
    let view = View { known: known(&["a"]), ..View::default() };
    assert!(!view.has_lost("a") && view.has_lost("b"));
    assert!(!view.has_lost(""), "it was never in the swarm");
    assert!(!View::default().has_lost("b"), "the engine does not answer");
}

#[test]
fn containers_that_the_engine_does_not_run_there_make_room() {
    let mut book = Book::new();
    let (session, _stream) = joined(&mut book, "a");
    book.set_placed(HashMap::from([(String::new(), vec!["0".to_owned()])]));
    let named = |number: usize| KnownContainer { service: number.to_string(), ..KnownContainer::default() };
    book.learn(session, (0..CONTAINERS_MAX).map(named).collect());
    book.learn(session, vec![named(CONTAINERS_MAX)]);
    let mut left: Vec<&String> = book.member(session.node).unwrap().containers.keys().collect();
    left.sort();
    assert_eq!(left, ["0", &CONTAINERS_MAX.to_string()]);
}
