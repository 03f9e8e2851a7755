//! What client and device say to each other: packets of 64-bit words in the machine's byte order.
//!
//! A request is its number and its fields. A reply is a status (see [`crate::status`]) and what was asked for.
//! Requests that submit work have no reply, as a launch has none: what went wrong is told by the next reply.

/// A packet on its way: never longer than a socket takes at once.
pub type Reply = Vec<u64>;

/// The most words of a request: its number and its fields.
pub const REQUEST_WORDS_MAX: usize = 5;

/// The most words of a reply: a few figures, and two for each process of a list.
pub const REPLY_WORDS_MAX: usize = 8_192;

macro_rules! requests {
    ($($(#[$about:meta])* $number:literal $name:ident { $($field:ident),* })*) => {
        /// What a client asks of the device.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the fields' names say it")]
        pub enum Request { $($(#[$about])* $name { $($field: u64),* }),* }

        impl Request {
            /// The request as words, and how many of them count.
            #[allow(unused_assignments, reason = "the last field is counted, too")]
            pub fn encode(self) -> ([u64; REQUEST_WORDS_MAX], usize) {
                let mut words = [0; REQUEST_WORDS_MAX];
                let mut used = 1;
                match self {
                    $(Self::$name { $($field),* } => {
                        words[0] = $number;
                        $(words[used] = $field; used += 1;)*
                    })*
                }
                (words, used)
            }

            /// Reads a request; nothing if it is none.
            #[allow(unused_mut, reason = "a request may have no fields")]
            pub fn decode(words: &[u64]) -> Option<Self> {
                let (number, mut fields) = words.split_first()?;
                let mut fields = fields.iter().copied();
                Some(match number {
                    $($number => Self::$name { $($field: fields.next()?),* },)*
                    _ => return None,
                })
            }
        }
    };
}

requests! {
    /// `cuInit`; `visible` has a bit for each device the process may use. Reply: how many devices there are.
    1 Init { visible }
    /// Reply when the context is there.
    2 CreateContext { device }
    3 DestroyContext { device }
    /// The client chooses the address: only it uses it.
    4 Allocate { device, address, bytes }
    5 Free { address }
    /// Reply: total and free bytes.
    6 MemoryInfo { device }
    /// No reply. The stream's number says its device: see [`stream_on`].
    7 Kernel { stream, work_ns }
    /// No reply. `direction` is one of [`INPUT`] and [`OUTPUT`].
    8 Copy { stream, bytes, direction }
    /// No reply. The event happens when all that is before it on the stream is done.
    9 Record { stream, event }
    /// No reply. What follows on the stream waits for the event.
    10 Await { stream, event }
    /// Reply when all work that the stream has now is done.
    11 Finish { stream }
    /// Reply when all work that the process has now on a device is done.
    12 FinishAll { device }
    /// Reply at once: done, or not ready.
    13 Query { stream }
    14 QueryEvent { event }
    /// Reply when the event has happened.
    15 FinishEvent { event }
    /// Reply: nanoseconds between two events.
    16 Elapsed { from, to }
    /// Reply when no more than this many launches of the process are queued.
    17 Throttle { queued }
    /// Another process is kept from submitting work.
    18 Lock { pid }
    /// Its memory leaves the device. Reply when it has.
    19 Checkpoint { pid }
    /// Its memory comes back. Reply when it has.
    20 Restore { pid }
    21 Unlock { pid }
    /// Reply: its state, as `cuCheckpointProcessGetState` has it.
    22 State { pid }
    /// Reply: how many devices there are.
    23 Count { }
    /// Reply: total, used, utilisation and memory utilisation in percent, then pid and bytes of each process.
    24 Snapshot { device }
    /// Reply: pid, time in microseconds, and utilisation of each sample later than `after_us`.
    25 Samples { device, after_us }
    /// The device is lost from now on.
    26 Lose { device }
    /// The device is back, empty.
    27 Recover { device }
    /// A thread of the process takes part in its checkpoints. Reply when there is one; the next request is its yes.
    28 Consent { }
    /// Reply: as for a snapshot; and the same again, unasked, whenever it has changed.
    29 Subscribe { device }
    /// The process has managed memory from now on, which no checkpoint moves.
    30 Manage { }
}

/// A copy to the device.
pub const INPUT: u64 = 0;
/// A copy from the device.
pub const OUTPUT: u64 = 1;

/// A stream's number says which device it is on, so that a launch need not.
const DEVICE_SHIFT: u32 = 48;
/// A stream's number says whether it minds the default stream.
pub const NON_BLOCKING: u64 = 1 << 40;

/// The number of a stream on a device. The device's default stream has `number` 0.
pub fn stream_on(device: u64, number: u64) -> u64 {
    device << DEVICE_SHIFT | number
}

/// The device that a stream is on.
pub fn device_of(stream: u64) -> usize {
    (stream >> DEVICE_SHIFT) as usize
}

/// Words as bytes, to be sent.
pub fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Bytes as words; what is left over at the end is dropped.
pub fn to_words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_anything_else_is_refused() {
        for request in [Request::Count {}, Request::Allocate { device: 1, address: 2, bytes: 3 }] {
            let (words, used) = request.encode();
            assert_eq!(Request::decode(&words[..used]), Some(request));
        }
        assert_eq!(Request::decode(&[]), None);
        assert_eq!(Request::decode(&[99]), None);
        assert_eq!(Request::decode(&[4, 1]), None);
    }
}
