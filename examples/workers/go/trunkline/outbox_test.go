package trunkline

import (
	"slices"
	"testing"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

func answerItem(claimID string) item {
	return item{claimID: claimID, answer: &pb.Answer{ClaimId: claimID}, size: itemSize}
}

func claimIDs(items []item) []string {
	var ids []string
	for _, i := range items {
		ids = append(ids, i.claimID)
	}
	return ids
}

func TestOutboxKeepsItemsInOrderUntilTheirAck(t *testing.T) {
	o := newOutbox()
	for _, id := range []string{"c", "a", "b"} {
		o.put(answerItem(id))
	}
	if taken, found := o.take("a"); !found || taken.claimID != "a" {
		t.Fatalf("take(a) = %v, %v", taken, found)
	}
	if got := claimIDs(o.items()); !slices.Equal(got, []string{"c", "b"}) {
		t.Errorf("items are %v, want [c b]", got)
	}
	if o.has("a") || !o.has("b") {
		t.Error("has: want b and not a")
	}
}

func TestOutboxTakesASecondAckForNothing(t *testing.T) {
	o := newOutbox()
	o.put(answerItem("a"))
	o.take("a")
	if _, found := o.take("a"); found {
		t.Error("the item was there twice")
	}
}

func TestOutboxKeepsTheFirstWordOfAClaim(t *testing.T) {
	o := newOutbox()
	deferral := item{claimID: "a", deferral: &pb.Deferral{ClaimId: "a"}}
	if !o.put(deferral) || o.put(answerItem("a")) {
		t.Fatal("want the first to be kept and the second refused")
	}
	if kept, _ := o.take("a"); kept.deferral == nil {
		t.Error("the deferral was replaced, although it may have been stored")
	}
}
