//! A topological order that changes while edges are added: a linked list of nodes with 64-bit labels
//! that ascend along the list, so that two nodes are compared in constant time. A node that moves
//! gets a label between those of its new neighbours; where there is no room, the labels around it
//! are spread (Bender, Cole, Demaine, Farach-Colton and Zito, "Two Simplified Algorithms for
//! Maintaining Order in a List", 2002).

/// Number of bits of a label.
const LABEL_BITS: u32 = 62;
/// Labels in a range of 2^i are spread if there are fewer than 2^(5 i / 8) of them: the smaller the range,
/// the denser it may become.
const DENSITY: [u32; 2] = [5, 8];

/// The order of the nodes 0 to n - 1. Node n is the head of the list.
#[derive(Clone, Debug)]
pub(super) struct NodeOrder {
    places: Vec<NodePlace>,
}

/// The place of a node.
#[derive(Clone, Copy, Debug)]
struct NodePlace {
    label: u64,
    next: u32,
    previous: u32,
}

impl NodeOrder {
    /// The order in which `sorted` lists all nodes.
    pub(super) fn new(sorted: &[u32]) -> Self {
        let head = sorted.len() as u32;
        let unlinked = NodePlace { label: 0, next: head, previous: head };
        let mut order = Self { places: vec![unlinked; sorted.len() + 1] };
        let gap = (1 << LABEL_BITS) / (sorted.len() as u64 + 1);
        let mut last = head;
        for (&node, rank) in sorted.iter().zip(1..) {
            order.places[node as usize].label = rank * gap;
            order.places[last as usize].next = node;
            order.places[node as usize].previous = last;
            last = node;
        }
        order.places[last as usize].next = head;
        order.places[head as usize].previous = last;
        order
    }

    /// An order in which no node is before another.
    pub(super) fn equal(count: usize) -> Self {
        let head = count as u32;
        Self { places: vec![NodePlace { label: 0, next: head, previous: head }; count + 1] }
    }

    /// Copies another order of as many nodes.
    pub(super) fn reset_to(&mut self, base: &Self) {
        self.places.clone_from(&base.places);
    }

    /// All nodes, the first one first.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let mut nodes = Vec::with_capacity(self.places.len() - 1);
        let mut node = self.places[self.head() as usize].next;
        while node != self.head() {
            nodes.push(node);
            node = self.places[node as usize].next;
        }
        nodes
    }

    /// Sorts like the order.
    #[inline]
    pub(super) fn label(&self, node: u32) -> u64 {
        self.places[node as usize].label
    }

    /// Moves `nodes`, which must be sorted, directly behind `anchor`.
    pub(super) fn move_behind(&mut self, anchor: u32, nodes: &[u32]) {
        let mut last = anchor;
        for &node in nodes {
            self.unlink(node);
            self.insert_behind(last, node);
            last = node;
        }
    }

    /// Moves `nodes`, which must be sorted, directly before `anchor`.
    pub(super) fn move_before(&mut self, anchor: u32, nodes: &[u32]) {
        for &node in nodes {
            self.unlink(node);
            self.insert_behind(self.places[anchor as usize].previous, node);
        }
    }

    fn unlink(&mut self, node: u32) {
        let before = self.places[node as usize].previous;
        let behind = self.places[node as usize].next;
        self.places[before as usize].next = behind;
        self.places[behind as usize].previous = before;
    }

    fn insert_behind(&mut self, before: u32, node: u32) {
        if self.room_behind(before) < 2 {
            self.spread_around(before);
        }
        let behind = self.places[before as usize].next;
        self.places[node as usize].label =
            self.places[before as usize].label + self.room_behind(before) / 2;
        self.places[before as usize].next = node;
        self.places[behind as usize].previous = node;
        self.places[node as usize].previous = before;
        self.places[node as usize].next = behind;
    }

    fn head(&self) -> u32 {
        self.places.len() as u32 - 1
    }

    /// The difference of the labels of a node and the next one.
    fn room_behind(&self, node: u32) -> u64 {
        let behind = self.places[node as usize].next;
        let end = if behind == self.head() {
            1 << LABEL_BITS
        } else {
            self.places[behind as usize].label
        };
        end - self.places[node as usize].label
    }

    /// Spreads the labels of the smallest sparse range around a node evenly over it.
    fn spread_around(&mut self, node: u32) {
        let head = self.head();
        let mut first = node;
        let mut last = node;
        let mut count = 1u64;
        for bits in 8..=LABEL_BITS {
            let base = self.places[node as usize].label >> bits << bits;
            let end = base + (1 << bits);
            while first != head {
                let before = self.places[first as usize].previous;
                if before != head && self.places[before as usize].label < base {
                    break;
                }
                first = before;
                count += 1;
            }
            while self.places[last as usize].next != head
                && self.label(self.places[last as usize].next) < end
            {
                last = self.places[last as usize].next;
                count += 1;
            }
            let [numerator, denominator] = DENSITY;
            if count < 1 << (bits * numerator / denominator) {
                self.spread(first, last, base, (end - base) / (count + 1));
                return;
            }
        }
        unreachable!("2^62 labels suffice for 2^32 nodes");
    }

    /// Gives the nodes from `first` to `last` labels at distances of `gap` from `base` on. The head
    /// keeps label 0.
    fn spread(&mut self, first: u32, last: u32, base: u64, gap: u64) {
        let mut node = if first == self.head() { self.places[first as usize].next } else { first };
        let mut label = base;
        if last == self.head() {
            return;
        }
        loop {
            label += gap;
            self.places[node as usize].label = label;
            if node == last {
                return;
            }
            node = self.places[node as usize].next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves to the same place use up the room there, so that labels are spread again and again.
    #[test]
    fn labels_ascend_after_any_moves() {
        let count = 500u32;
        let mut order = NodeOrder::new(&(0..count).collect::<Vec<_>>());
        let mut expected: Vec<u32> = (0..count).collect();
        let mut state = 7u64;
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let moved = (state >> 33) as u32 % count;
            let anchor = if step % 3 == 0 { (state >> 13) as u32 % count } else { 5 };
            if moved == anchor {
                continue;
            }
            expected.retain(|&node| node != moved);
            let at = expected.iter().position(|&node| node == anchor).unwrap();
            match step % 2 {
                0 => {
                    order.move_behind(anchor, &[moved]);
                    expected.insert(at + 1, moved);
                }
                _ => {
                    order.move_before(anchor, &[moved]);
                    expected.insert(at, moved);
                }
            }
        }
        let nodes = order.nodes();
        assert_eq!(nodes, expected);
        assert!(nodes.windows(2).all(|pair| order.label(pair[0]) < order.label(pair[1])));
    }
}
