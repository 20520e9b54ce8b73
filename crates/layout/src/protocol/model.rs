//! Tests the rules by exhaustive search: every interleaving of the steps of several actors on one
//! name. An actor may be killed between any two steps.
//!
//! The actors run the same functions as the real layout, against a model of a disk with two places.
//! An actor's state is the list of answers to its steps so far. To take one more step, the actor's
//! function runs again from the start with those answers, and is stopped after the first new one.
//! Equal states are visited only once, which keeps the complete search small.
//!
//! There are two requirements. First, there are never two different files of one name. Second, the
//! results are linearizable: the same results are possible if the actors look at, replace and
//! remove one file one after the other, where an actor that had finished precedes all actors that
//! began later. The operation of a killed actor may or may not have happened.

mod search;

use std::cell::{Cell, RefCell};

use super::{DiskSteps, FilePlace, MoveResult};

/// The modelled disk. `flat` and `sharded` are the two places of the name, each with the number of
/// the file in it; `target` is the place that the layout file states; `inside` counts the actors
/// that hold the gate; `moves` are the calls that the file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ModelDisk {
    flat: Option<u8>,
    sharded: Option<u8>,
    target: FilePlace,
    inside: u8,
    moves: Moves,
}

/// The calls by which the file system can move a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Moves {
    Rename,
    LinkAndUnlink,
}

impl ModelDisk {
    fn at(&mut self, place: FilePlace) -> &mut Option<u8> {
        match place {
            FilePlace::Flat => &mut self.flat,
            FilePlace::Sharded => &mut self.sharded,
        }
    }

    fn give_name(&mut self, from: FilePlace, to: FilePlace) -> MoveResult {
        match (*self.at(from), *self.at(to)) {
            (None, _) => MoveResult::Absent,
            (Some(_), Some(_)) => MoveResult::Taken,
            (file, None) => {
                *self.at(to) = file;
                MoveResult::Done
            }
        }
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Entered(FilePlace),
    Moved(MoveResult),
    Same(Option<bool>),
    Found(Option<u8>),
    Done,
}

/// Reason why an actor's function stopped without a result.
#[derive(Debug, PartialEq, Eq)]
enum StopReason {
    /// The actor has taken its step.
    Stepped,
    /// The actor waits for the gate.
    Blocked,
}

/// The disk as one actor sees it during one step.
struct ActorView {
    world: RefCell<ModelDisk>,
    answers: RefCell<Vec<Answer>>,
    next: Cell<usize>,
    stepped: Cell<bool>,
    inside: Cell<bool>,
    /// The file that the actor writes.
    file: u8,
}

impl ActorView {
    /// Returns a recorded answer, or takes the one new step.
    fn step(&self, act: impl FnOnce(&mut ModelDisk) -> Option<Answer>) -> Result<Answer, StopReason> {
        let at = self.next.replace(self.next.get() + 1);
        if let Some(answer) = self.answers.borrow().get(at) {
            return Ok(*answer);
        }
        if self.stepped.replace(true) {
            return Err(StopReason::Stepped);
        }
        let answer = act(&mut self.world.borrow_mut()).ok_or(StopReason::Blocked)?;
        self.answers.borrow_mut().push(answer);
        Ok(answer)
    }

    fn read(&self, place: FilePlace) -> Result<Option<u8>, StopReason> {
        match self.step(|world| Some(Answer::Found(*world.at(place))))? {
            Answer::Found(file) => Ok(file),
            other => panic!("{other:?} to a look"),
        }
    }

    /// Reverses the direction. Blocks while an actor is inside the gate.
    fn set_target(&self, target: FilePlace) -> Result<(), StopReason> {
        let turned = self.step(|world| {
            world.target = target;
            (world.inside == 0).then_some(Answer::Done)
        });
        turned.map(drop)
    }
}

impl DiskSteps for ActorView {
    type Error = StopReason;

    fn gated<T>(&self, work: impl FnOnce(FilePlace) -> Result<T, StopReason>) -> Result<T, StopReason> {
        let entered = self.step(|world| {
            world.inside += 1;
            Some(Answer::Entered(world.target))
        })?;
        let Answer::Entered(target) = entered else { panic!("{entered:?} to an entry") };
        self.inside.set(true);
        let done = work(target)?;
        self.step(|world| {
            world.inside -= 1;
            Some(Answer::Done)
        })?;
        self.inside.set(false);
        Ok(done)
    }

    fn rename_exclusively(&self, from: FilePlace, to: FilePlace) -> Result<Option<MoveResult>, StopReason> {
        if self.world.borrow().moves == Moves::LinkAndUnlink {
            return Ok(None);
        }
        let moved = self.step(|world| {
            let moved = world.give_name(from, to);
            if moved == MoveResult::Done {
                *world.at(from) = None;
            }
            Some(Answer::Moved(moved))
        })?;
        let Answer::Moved(moved) = moved else { panic!("{moved:?} to a move") };
        Ok(Some(moved))
    }

    fn link(&self, from: FilePlace, to: FilePlace) -> Result<MoveResult, StopReason> {
        match self.step(|world| Some(Answer::Moved(world.give_name(from, to))))? {
            Answer::Moved(moved) => Ok(moved),
            other => panic!("{other:?} to a link"),
        }
    }

    fn are_one_file(&self, from: FilePlace, to: FilePlace) -> Result<Option<bool>, StopReason> {
        let same = self.step(|world| {
            let (from, to) = (*world.at(from), *world.at(to));
            Some(Answer::Same(from.map(|_| from == to)))
        })?;
        let Answer::Same(same) = same else { panic!("{same:?} to a comparison") };
        Ok(same)
    }

    fn install(&self, place: FilePlace) -> Result<(), StopReason> {
        let file = self.file;
        let installed = self.step(|world| {
            *world.at(place) = Some(file);
            Some(Answer::Done)
        });
        installed.map(drop)
    }

    fn remove(&self, place: FilePlace) -> Result<bool, StopReason> {
        match self.step(|world| Some(Answer::Found(world.at(place).take())))? {
            Answer::Found(file) => Ok(file.is_some()),
            other => panic!("{other:?} to a removal"),
        }
    }
}
