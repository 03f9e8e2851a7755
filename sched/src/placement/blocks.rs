//! A sorted list that finds "the next entry in order whose value is at least x" quickly.
//!
//! Problem: nodes sorted by float, of which the next with enough memory is wanted; if nearly none has
//! it, walking the list costs as many steps as there are nodes. Approach: the list is cut into blocks
//! of at most [`BLOCK_MAX`] entries, and each block's greatest value is kept in an array of its own. A
//! search walks that array, which for 100,000 entries is a few hundred numbers side by side, and then
//! one block. Inserting and removing moves entries within one block. A balanced tree would need fewer
//! steps, each of them a jump in memory: slower up to a million entries, and longer to read.

use alloc::vec::Vec;

use super::Key;

/// Blocks grow to this many entries and are then cut in half: 12 KiB, so that moving half of it is cheap.
const BLOCK_MAX: usize = 512;

/// Neighbours that together have no more than this become one block, so that there are never many
/// more blocks than needed.
const MERGED_MAX: usize = BLOCK_MAX / 2;

/// Sorted by rank, then by value, then by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) rank: i64,
    pub(super) value: i64,
    pub(super) key: Key,
}

/// Entries in order. No block is ever empty.
#[derive(Clone, Debug, Default)]
pub(super) struct SortedBlocks {
    blocks: Vec<Vec<Entry>>,
    /// The greatest value in each block.
    greatest: Vec<i64>,
}

impl SortedBlocks {
    /// Adds an entry.
    pub(super) fn insert(&mut self, entry: Entry) {
        if self.blocks.is_empty() {
            self.blocks.push(Vec::with_capacity(BLOCK_MAX + 1));
            self.greatest.push(i64::MIN);
        }
        let at = self.block_of(&entry).min(self.blocks.len() - 1);
        let block = &mut self.blocks[at];
        let position = block.partition_point(|other| *other < entry);
        block.insert(position, entry);
        self.greatest[at] = self.greatest[at].max(entry.value);
        if block.len() > BLOCK_MAX {
            self.split(at);
        }
    }

    /// Takes out an entry; one that is not there changes nothing.
    pub(super) fn remove(&mut self, entry: &Entry) {
        let at = self.block_of(entry);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let Ok(position) = block.binary_search(entry) else { return };
        block.remove(position);
        if block.is_empty() {
            self.blocks.remove(at);
            self.greatest.remove(at);
        } else if self.greatest[at] == entry.value {
            self.greatest[at] = greatest_of(block);
        }
        self.merge(at);
        self.merge(at.wrapping_sub(1));
    }

    /// The first entry, from that rank on, with at least that value, that is not to be skipped.
    pub(super) fn first_from(&self, rank: i64, value_least: i64, skip: &[Key]) -> Option<Entry> {
        let wanted = |entry: &&Entry| entry.value >= value_least && !skip.contains(&entry.key);
        let start = self.blocks.partition_point(|block| block.last().is_some_and(|last| last.rank < rank));
        let mut from = start;
        while let Some(ahead) = self.greatest[from..].iter().position(|value| *value >= value_least) {
            let at = from + ahead;
            let block = &self.blocks[at];
            // Only in the block that the search starts in can there be entries below the rank.
            let below = if at == start { block.partition_point(|entry| entry.rank < rank) } else { 0 };
            if let Some(found) = block[below..].iter().find(wanted) {
                return Some(*found);
            }
            from = at + 1;
        }
        None
    }

    /// The last entry with at least that value that is not to be skipped.
    pub(super) fn last_with(&self, value_least: i64, skip: &[Key]) -> Option<Entry> {
        let wanted = |entry: &&Entry| entry.value >= value_least && !skip.contains(&entry.key);
        let mut end = self.blocks.len();
        while let Some(at) = self.greatest[..end].iter().rposition(|value| *value >= value_least) {
            if let Some(found) = self.blocks[at].iter().rev().find(wanted) {
                return Some(*found);
            }
            end = at;
        }
        None
    }

    /// The block that has the entry, or would.
    fn block_of(&self, entry: &Entry) -> usize {
        self.blocks.partition_point(|block| block.last() < Some(entry))
    }

    fn split(&mut self, at: usize) {
        let half = self.blocks[at].len() / 2;
        let mut upper = Vec::with_capacity(BLOCK_MAX + 1);
        upper.extend(self.blocks[at].drain(half..));
        self.greatest[at] = greatest_of(&self.blocks[at]);
        self.greatest.insert(at + 1, greatest_of(&upper));
        self.blocks.insert(at + 1, upper);
    }

    /// Makes one of a block and the next, if both are small.
    fn merge(&mut self, at: usize) {
        let Some(next) = at.checked_add(1).filter(|next| *next < self.blocks.len()) else { return };
        if self.blocks[at].len() + self.blocks[next].len() <= MERGED_MAX {
            let upper = self.blocks.remove(next);
            self.blocks[at].extend(upper);
            let value = self.greatest.remove(next);
            self.greatest[at] = self.greatest[at].max(value);
        }
    }
}

fn greatest_of(block: &[Entry]) -> i64 {
    block.iter().map(|entry| entry.value).max().unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(rank: i64, value: i64) -> Entry {
        Entry { rank, value, key: Key { node: rank as u32, gpu: 0 } }
    }

    /// Everything the searches rely on.
    fn check(list: &SortedBlocks, entries: usize) {
        let all: Vec<Entry> = list.blocks.iter().flatten().copied().collect();
        assert_eq!(all.len(), entries);
        assert!(all.is_sorted());
        assert_eq!(list.blocks.len(), list.greatest.len());
        for (block, greatest) in list.blocks.iter().zip(&list.greatest) {
            assert!(!block.is_empty() && block.len() <= BLOCK_MAX);
            assert_eq!(greatest_of(block), *greatest);
        }
        assert!(list.blocks.windows(2).all(|pair| pair[0].len() + pair[1].len() > MERGED_MAX));
    }

    #[test]
    fn an_empty_list_finds_nothing() {
        let mut list = SortedBlocks::default();
        assert_eq!(list.first_from(i64::MIN, i64::MIN, &[]), None);
        assert_eq!(list.last_with(i64::MIN, &[]), None);
        list.remove(&entry(1, 1));
        check(&list, 0);
    }

    #[test]
    fn a_list_stays_sorted_while_it_grows_and_shrinks() {
        let mut list = SortedBlocks::default();
        // 7,919 is prime, so that every rank below it comes once, in a scattered order.
        let entries: Vec<Entry> = (0..7_919).map(|i| entry(i * 4_001 % 7_919, i % 100)).collect();
        for (count, added) in entries.iter().enumerate() {
            list.insert(*added);
            if count % 500 == 0 {
                check(&list, count + 1);
            }
        }
        for (count, removed) in entries.iter().enumerate() {
            list.remove(removed);
            if count % 500 == 0 {
                check(&list, entries.len() - count - 1);
            }
        }
        check(&list, 0);
    }

    #[test]
    fn searches_start_at_a_rank_and_pass_what_is_too_small_or_skipped() {
        let mut list = SortedBlocks::default();
        for rank in 0..5_000 {
            list.insert(entry(rank, if rank % 1_000 == 0 { 9 } else { 1 }));
        }
        assert_eq!(list.first_from(0, 9, &[]), Some(entry(0, 9)));
        assert_eq!(list.first_from(1, 9, &[]), Some(entry(1_000, 9)));
        assert_eq!(list.first_from(1, 9, &[entry(1_000, 9).key]), Some(entry(2_000, 9)));
        assert_eq!(list.first_from(4_001, 9, &[]), None);
        assert_eq!(list.last_with(9, &[]), Some(entry(4_000, 9)));
        assert_eq!(list.last_with(9, &[entry(4_000, 9).key]), Some(entry(3_000, 9)));
        assert_eq!(list.last_with(10, &[]), None);
    }
}
