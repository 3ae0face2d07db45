//! What the server has yet to acknowledge.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

use super::pb;

/// The last word on a claim. Only a deferral may be refused, and so be followed by another.
pub enum Word {
    Answer(pb::Answer),
    Deferral(pb::Deferral),
    Release(String),
}

impl Word {
    pub fn claim_id(&self) -> &str {
        match self {
            Word::Answer(answer) => &answer.claim_id,
            Word::Deferral(deferral) => &deferral.claim_id,
            Word::Release(claim_id) => claim_id,
        }
    }

    /// What it takes in a frame, in bytes, without its tag and length.
    pub fn size(&self) -> usize {
        match self {
            Word::Answer(answer) => answer.encoded_len(),
            Word::Deferral(deferral) => deferral.encoded_len(),
            Word::Release(claim_id) => claim_id.len(),
        }
    }

    pub fn put(&self, frame: &mut pb::WorkRequest) {
        match self {
            Word::Answer(answer) => frame.answers.push(answer.clone()),
            Word::Deferral(deferral) => frame.deferrals.push(deferral.clone()),
            Word::Release(claim_id) => frame.releases.push(claim_id.clone()),
        }
    }
}

/// One word for each claim, oldest first.
#[derive(Default)]
pub struct Outbox {
    words: BTreeMap<u64, Word>,
    numbers: HashMap<String, u64>,
    last: u64,
}

impl Outbox {
    /// Keeps a word; a claim that has one already keeps that one, which may have been stored.
    pub fn put(&mut self, word: Word) -> bool {
        if self.has(word.claim_id()) {
            return false;
        }
        self.last += 1;
        self.numbers.insert(word.claim_id().to_owned(), self.last);
        self.words.insert(self.last, word);
        true
    }

    /// Whether a claim waits for an ack: then nothing else that the server says of it counts.
    pub fn has(&self, claim_id: &str) -> bool {
        self.numbers.contains_key(claim_id)
    }

    pub fn get(&self, claim_id: &str) -> Option<&Word> {
        self.words.get(self.numbers.get(claim_id)?)
    }

    /// Takes the word that was acknowledged; none when that was done before.
    pub fn take(&mut self, claim_id: &str) -> Option<Word> {
        self.words.remove(&self.numbers.remove(claim_id)?)
    }

    pub fn claim_ids(&self) -> impl Iterator<Item = &str> {
        self.words.values().map(Word::claim_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(claim_id: &str) -> Word {
        Word::Release(claim_id.to_owned())
    }

    #[test]
    fn keeps_words_in_order_until_their_ack() {
        let mut outbox = Outbox::default();
        for id in ["c", "a", "b"] {
            outbox.put(release(id));
        }
        assert!(outbox.take("a").is_some_and(|word| word.claim_id() == "a"));
        assert_eq!(outbox.claim_ids().collect::<Vec<_>>(), ["c", "b"]);
        assert!(!outbox.has("a") && outbox.has("b"));
    }

    #[test]
    fn takes_a_second_ack_for_nothing() {
        let mut outbox = Outbox::default();
        outbox.put(release("a"));
        outbox.take("a");
        assert!(outbox.take("a").is_none());
    }

    #[test]
    fn keeps_the_first_word_on_a_claim() {
        let mut outbox = Outbox::default();
        let deferral = pb::Deferral { claim_id: "a".to_owned(), ..Default::default() };
        assert!(outbox.put(Word::Deferral(deferral)));
        assert!(!outbox.put(release("a")));
        assert!(matches!(outbox.take("a"), Some(Word::Deferral(_))));
    }
}
