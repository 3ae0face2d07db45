/**
 * A worker of a Trunkline server: it takes calls from a stream, runs their handlers, and brings the answers back,
 * whatever happens to connections and servers. docs/protocol.md, "Being a worker", is what it follows; the numbers in
 * comments are the steps there.
 *
 * <p>All that it knows belongs to one thread, the loop: gRPC's callbacks run there, timers do, and handlers, which have
 * threads of their own, send there how they ended. So there are no locks, and whatever gathers while a frame is made
 * goes into the next one together.
 */
package com.example.trunkline;
