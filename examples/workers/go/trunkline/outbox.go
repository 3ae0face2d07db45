package trunkline

import (
	"container/list"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

// item is one thing to say about a claim: an acceptance, a deferral, an answer, or else a release.
type item struct {
	claimID  string
	accepts  *held
	deferral *pb.Deferral
	answer   *pb.Answer
	size     int // roughly, in bytes
}

func (i item) put(frame *pb.WorkRequest) {
	switch {
	case i.accepts != nil:
		frame.Accepted = append(frame.Accepted, i.claimID)
	case i.deferral != nil:
		frame.Deferrals = append(frame.Deferrals, i.deferral)
	case i.answer != nil:
		frame.Answers = append(frame.Answers, i.answer)
	default:
		frame.Releases = append(frame.Releases, i.claimID)
	}
}

// outbox keeps what the server has yet to acknowledge, one item for each claim, oldest first.
type outbox struct {
	order list.List
	byID  map[string]*list.Element
}

func newOutbox() *outbox { return &outbox{byID: map[string]*list.Element{}} }

// put keeps an item; a claim that has one already keeps that one, which may have been stored.
func (o *outbox) put(i item) bool {
	if o.has(i.claimID) {
		return false
	}
	o.byID[i.claimID] = o.order.PushBack(i)
	return true
}

// has tells whether a claim waits for an ack: then nothing else that the server says of it counts.
func (o *outbox) has(claimID string) bool {
	_, found := o.byID[claimID]
	return found
}

// take removes the item that was acknowledged; false when that was done before.
func (o *outbox) take(claimID string) (item, bool) {
	element, found := o.byID[claimID]
	if !found {
		return item{}, false
	}
	delete(o.byID, claimID)
	return o.order.Remove(element).(item), true
}

func (o *outbox) items() []item {
	items := make([]item, 0, o.order.Len())
	for e := o.order.Front(); e != nil; e = e.Next() {
		items = append(items, e.Value.(item))
	}
	return items
}
