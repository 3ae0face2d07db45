package com.example.trunkline;

import com.google.protobuf.Duration;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import trunkline.v1.Worker.Drain;
import trunkline.v1.Worker.Goaway;
import trunkline.v1.Worker.HeldClaim;
import trunkline.v1.Worker.Hello;
import trunkline.v1.Worker.WorkRequest;
import trunkline.v1.Worker.WorkResponse;
import trunkline.v1.WorkerServiceGrpc;

/** One Work stream, on a connection of its own. */
final class Stream implements ClientResponseObserver<WorkRequest, WorkResponse> {
  /** The largest frame that either side sends. */
  static final int MAX_FRAME = 4 << 20;
  /** A frame is closed at this size, unless one item is larger. */
  static final int FULL_FRAME = 256 << 10;
  /** How long a stream may take from its opening to its welcome. */
  private static final long WELCOME_TIMEOUT_MS = 10_000;
  /** How long after its deadline a stream is left that said goaway and did not end. */
  private static final long GOAWAY_SLACK_MS = 5_000;

  final long openedAt = System.nanoTime();
  private final Session session;
  private final ScheduledExecutorService loop;
  private final BiConsumer<Stream, Status> replace;
  private final List<Future<?>> timers = new ArrayList<>();
  private ManagedChannel channel;
  private ClientCallStreamObserver<WorkRequest> requests;

  private final Queue<Item> queue = new ArrayDeque<>();
  private final Set<String> named = new HashSet<>();
  private int grant;
  private boolean greeted;
  private boolean welcomed;
  private boolean beatDue;
  private boolean drainDue;
  private boolean drained;
  private boolean closing;
  private boolean replaced;
  /** The call was started, and its sending side is not closed. */
  private boolean writable;
  private int silent;

  /** @param replace is called once, when the next stream is wanted */
  Stream(Session session, ScheduledExecutorService loop, BiConsumer<Stream, Status> replace) {
    this.session = session;
    this.loop = loop;
    this.replace = replace;
  }

  void open(ManagedChannel channel) {
    this.channel = channel;
    session.opened(this);
    dropAfter(WELCOME_TIMEOUT_MS, "the server gave no welcome");
    WorkerServiceGrpc.newStub(channel).work(this);
  }

  /** Gives up the stream, and the connection with it (8). */
  void drop(String why) {
    writable = false;
    requests.cancel(why, null);
    channel.shutdownNow();
  }

  private void dropAfter(long ms, String why) {
    timers.add(loop.schedule(() -> drop(why), ms, TimeUnit.MILLISECONDS));
  }

  private void cancelTimers() {
    timers.forEach(timer -> timer.cancel(false));
    timers.clear();
  }

  @Override
  public void beforeStart(ClientCallStreamObserver<WorkRequest> requests) {
    this.requests = requests;
    writable = true;
    requests.setOnReadyHandler(this::send); // first when the connection stands, so that the hello is as of then
  }

  @Override
  public void onNext(WorkResponse frame) {
    silent = 0;
    if (frame.hasWelcome() && !welcomed) {
      welcomed();
      cancelTimers();
      long ms = Math.max(1, millis(frame.getWelcome().getHeartbeatInterval()));
      // With a delay and not at a rate: after a standstill of this process there is no catching up on intervals in
      // which it had no chance to hear anything.
      timers.add(loop.scheduleWithFixedDelay(this::beat, ms, ms, TimeUnit.MILLISECONDS));
    }
    drained |= frame.hasDrained();
    session.apply(this, frame);
    if (frame.hasGoaway() && !replaced) {
      leave(frame.getGoaway());
    }
  }

  /** Heartbeats, and what there is to say of claims, may go out now. */
  void welcomed() {
    welcomed = true;
  }

  /** Wants the next stream, and reads this one to its end (9). */
  private void leave(Goaway goaway) {
    replaced = true;
    dropAfter(millis(goaway.getDeadline()) + GOAWAY_SLACK_MS, "the server said goaway and did not end the stream");
    session.replaced(this);
    replace.accept(this, Status.OK.withDescription("the server said goaway"));
  }

  @Override
  public void onError(Throwable error) {
    end(Status.fromThrowable(error));
  }

  @Override
  public void onCompleted() {
    end(Status.OK);
  }

  private void end(Status status) {
    writable = false;
    cancelTimers();
    channel.shutdownNow();
    session.ended(this);
    if (!replaced) {
      replace.accept(this, status);
    }
  }

  /** Makes a heartbeat due in every interval, and drops a connection on which nothing was heard for three. */
  private void beat() {
    boolean active = session.isActive(this);
    // A stream that was replaced gets no heartbeat, and so has no ack to send: its deadline bounds it (9).
    if (++silent > 3 && (active || !replaced)) {
      drop("the server was silent for three heartbeat intervals");
      return;
    }
    beatDue = active;
    session.changed();
  }

  /** Sends whatever is ready, frame by frame, while the connection takes it; the rest gathers. */
  void send() {
    while (writable && requests.isReady()) {
      List<Held> accepts = new ArrayList<>();
      WorkRequest frame = next(accepts);
      if (frame == null) {
        if (closing) {
          writable = false;
          requests.onCompleted();
        }
        return;
      }
      requests.onNext(frame);
      accepts.forEach(session::accepted); // only now, when that is on its way, may handlers start (2)
    }
  }

  /** Makes the next frame, or null, and adds the claims that it accepts. */
  WorkRequest next(List<Held> accepts) {
    if (!greeted) {
      greeted = true;
      Hello hello = session.hello();
      hello.getClaimsList().stream().map(HeldClaim::getClaimId).forEach(named::add);
      return WorkRequest.newBuilder().setHello(hello).build();
    }
    WorkRequest.Builder frame = WorkRequest.newBuilder().setGrant(grant);
    grant = 0;
    if (welcomed) { // until then grants only (1)
      fill(frame, accepts);
    }
    WorkRequest made = frame.build();
    return made.equals(WorkRequest.getDefaultInstance()) ? null : made;
  }

  private void fill(WorkRequest.Builder frame, List<Held> accepts) {
    int size = 0;
    if (beatDue) {
      beatDue = false;
      frame.setHeartbeat(session.heartbeat());
      size = frame.getHeartbeat().getClaimsCount() * Item.ID_BYTES;
    }
    for (Item item; (item = queue.peek()) != null; queue.remove()) {
      if (size > 0 && size + item.size() > FULL_FRAME) {
        break;
      }
      item.addTo(frame);
      size += item.size();
      if (item instanceof Item.Acceptance acceptance) {
        accepts.add(acceptance.held());
      }
    }
    if (drainDue && queue.isEmpty()) { // what was to be said before it goes first
      drainDue = false;
      frame.setDrain(Drain.getDefaultInstance());
    }
  }

  void say(Item item) {
    queue.add(item);
  }

  /** Says nothing more of claims: the stream after it does. */
  void forget() {
    queue.clear();
  }

  void sayDrain() {
    drainDue = true;
  }

  void grant() {
    grant++;
  }

  void closeWhenSent() {
    closing = true;
  }

  boolean named(String claimId) {
    return named.contains(claimId);
  }

  boolean isGreeted() {
    return greeted;
  }

  boolean isWelcomed() {
    return welcomed;
  }

  boolean isDrained() {
    return drained;
  }

  boolean isReplaced() {
    return replaced;
  }

  private static long millis(Duration duration) {
    return duration.getSeconds() * 1_000 + duration.getNanos() / 1_000_000;
  }
}
