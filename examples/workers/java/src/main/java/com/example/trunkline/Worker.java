package com.example.trunkline;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Takes calls from a server and runs their handlers, from {@link #start} until it has drained. */
public final class Worker {
  /** A stream that asked to be replaced this soon is replaced with a pause, or both sides would go round in circles. */
  private static final Duration YOUNG = Duration.ofSeconds(1);

  /** What no other try would change (8). */
  private static final Set<Status.Code> FINAL = Set.of(Status.Code.UNAUTHENTICATED, Status.Code.PERMISSION_DENIED);

  private static final Logger LOG = System.getLogger(Worker.class.getName());

  private final Settings settings;
  private final ScheduledThreadPoolExecutor loop;
  private final ExecutorService handlers = Executors.newCachedThreadPool();
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private final Session session;
  private Backoff backoff;

  /**
   * Which tools to run, and for which server.
   *
   * @param url {@code http://HOST:PORT}, or {@code https://}
   * @param key sent as a bearer token; empty for a server without keys
   * @param name for people
   * @param slots how many handlers run at once, 1 to 10,000
   */
  public record Settings(String url, String key, String name, int slots, Map<String, Handler> tools) {
    public Settings {
      if (!url.matches("https?://[^/]+:\\d+/?")) {
        throw new IllegalArgumentException("url is " + url + "; allowed are http://HOST:PORT and https://HOST:PORT");
      }
      if (slots < 1 || slots > 10_000) {
        throw new IllegalArgumentException("slots is " + slots + "; allowed are 1 to 10,000");
      }
      tools = Map.copyOf(tools);
    }
  }

  public Worker(Settings settings) {
    this.settings = settings;
    loop = new ScheduledThreadPoolExecutor(1, task -> new Thread(task, "trunkline"));
    loop.setRemoveOnCancelPolicy(true);
    loop.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy()); // after the end nobody wants to know
    session = new Session(settings, loop, handlers, () -> finish(null));
  }

  public void start() {
    loop.execute(this::open);
  }

  /**
   * Takes no further call, hands back what has not started, finishes what runs, and delivers the answers, however long
   * that takes.
   */
  public void drain() {
    loop.execute(session::drain);
  }

  /** Completes when it has drained, and fails when the server refuses the key; everything else is waited out. */
  public CompletableFuture<Void> ended() {
    return ended;
  }

  /** A connection for each stream, so that one that is dead, or whose server leaves, carries nothing new (8, 9). */
  private void open() {
    try {
      new Stream(session, loop, this::replace).open(newChannel());
    } catch (RuntimeException unusable) {
      finish(unusable); // its settings cannot be used; that there is no server, the stream says
    }
  }

  private ManagedChannel newChannel() {
    URI url = URI.create(settings.url());
    ChannelCredentials security =
        url.getScheme().equals("https") ? TlsChannelCredentials.create() : InsecureChannelCredentials.create();
    Metadata headers = new Metadata();
    if (!settings.key().isEmpty()) {
      headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + settings.key());
    }
    return Grpc.newChannelBuilder("dns:///" + url.getAuthority(), security)
        .executor(loop)
        .maxInboundMessageSize(Stream.MAX_FRAME)
        .disableRetry() // gRPC would repeat a hello as it was, and what it says may have changed
        .intercept(MetadataUtils.newAttachHeadersInterceptor(headers))
        .build();
  }

  /** The next stream is wanted: this one has ended, or is to be replaced. */
  private void replace(Stream stream, Status status) {
    if (ended.isDone() || session.isDone()) {
      return;
    }
    if (FINAL.contains(status.getCode())) {
      finish(status.augmentDescription("the server refuses the key").asRuntimeException());
      return;
    }
    long now = System.nanoTime();
    if (stream.isWelcomed()) {
      backoff = null;
      if (stream.isReplaced() && now - stream.openedAt > YOUNG.toNanos()) {
        open();
        return;
      }
    }
    backoff = backoff == null ? new Backoff(now) : backoff;
    Duration pause = backoff.next(now);
    LOG.log(Level.WARNING, "no stream ({0}); next try in {1} ms", status, pause.toMillis());
    loop.schedule(this::open, pause.toMillis(), TimeUnit.MILLISECONDS);
  }

  private void finish(Throwable failure) {
    session.close();
    handlers.shutdownNow();
    loop.shutdownNow();
    if (failure == null) {
      ended.complete(null);
    } else {
      ended.completeExceptionally(failure);
    }
  }
}
