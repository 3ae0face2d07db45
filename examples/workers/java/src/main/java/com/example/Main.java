package com.example;

import com.example.trunkline.Call;
import com.example.trunkline.Handler;
import com.example.trunkline.ToolException;
import com.example.trunkline.Worker;
import com.google.gson.JsonElement;
import com.google.gson.annotations.SerializedName;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;

/** A worker with the tools that {@code npx trunkline conformance} calls: start from it, with yours in their place. */
final class Main {
  record Fail(String message, JsonElement data, boolean retryable) {}

  record Crash(String message) {}

  record Sleep(long ms) {}

  record Slept(boolean slept) {}

  record Defer(@SerializedName("timeout_ms") long timeoutMs) {}

  record Big(int bytes) {}

  static String echo(Call call) {
    return call.inputJson(); // never parsed, so that no digit is lost
  }

  static Object fail(Call call, Fail in) throws ToolException {
    throw new ToolException(in.message(), in.data() == null ? "" : in.data().toString(), in.retryable());
  }

  static Object crash(Call call, Crash in) {
    throw new IllegalStateException(in.message());
  }

  static Object sleep(Call call, Sleep in) throws InterruptedException {
    try {
      Thread.sleep(in.ms());
      return new Slept(true);
    } catch (InterruptedException lost) {
      System.out.println("stopped " + call.id());
      throw lost;
    }
  }

  static Object defer(Call call, Defer in) throws InterruptedException {
    String token = call.newToken(); // a real tool stores it here, before anything can go wrong
    call.defer(token, Duration.ofMillis(in.timeoutMs()));
    System.out.println("token " + token); // and publishes it here, where it is good
    return null;
  }

  static Object big(Call call, Big in) {
    return "x".repeat(in.bytes());
  }

  public static void main(String[] args) {
    Map<String, Handler> tools = new HashMap<>(Map.of(
        "echo", Main::echo,
        "fail", Handler.typed(Fail.class, Main::fail),
        "crash", Handler.typed(Crash.class, Main::crash),
        "sleep", Handler.typed(Sleep.class, Main::sleep),
        "defer", Handler.typed(Defer.class, Main::defer),
        "big", Handler.typed(Big.class, Main::big)));
    tools.replaceAll((name, handler) -> call -> {
      System.out.println("started " + call.id() + " " + call.attempt());
      return handler.handle(call);
    });
    Worker worker = new Worker(new Worker.Settings(
        env("TRUNKLINE_URL", "http://127.0.0.1:7788"), env("TRUNKLINE_KEY", ""), env("TRUNKLINE_WORKER", "java"),
        Integer.parseInt(env("TRUNKLINE_CONCURRENCY", "10")), tools));
    // By SIGTERM a JVM ends with 143 as soon as its hooks have returned: this one waits, and says 0.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      worker.drain();
      Runtime.getRuntime().halt(statusOf(worker));
    }));
    worker.start();
    System.exit(statusOf(worker));
  }

  private static int statusOf(Worker worker) {
    try {
      worker.ended().join();
      return 0;
    } catch (CompletionException failed) {
      System.err.println("the worker has ended: " + failed.getCause().getMessage());
      return 1;
    }
  }

  private static String env(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? otherwise : value;
  }
}
