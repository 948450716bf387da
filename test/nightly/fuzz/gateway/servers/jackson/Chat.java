import com.fasterxml.jackson.annotation.JsonAlias;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Two chat servers that parse with Jackson: one with its defaults and the server's own contexts, and
 * one with all lenient features, which dispatches by the end of the path. Prints {"router": port,
 * "suffix": port} and serves until its input is closed.
 */
public class Chat {
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static class Options {
    @JsonAlias("includeUsage")
    public boolean include_usage;
  }

  @JsonIgnoreProperties(ignoreUnknown = true)
  public static class Body {
    public String model;
    public boolean stream;

    @JsonAlias("streamOptions")
    public Options stream_options;
  }

  static final AtomicInteger count = new AtomicInteger();

  static void send(HttpExchange exchange, int status, String type, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("content-type", type);
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
  }

  static void answer(HttpExchange exchange, ObjectMapper mapper, String kind) throws IOException {
    Body body = mapper.readValue(exchange.getRequestBody().readAllBytes(), Body.class);
    boolean reported = !body.stream || (body.stream_options != null && body.stream_options.include_usage);
    int total = 10 + count.incrementAndGet() % 90;
    String usage = "{\"prompt_tokens\":6,\"completion_tokens\":" + (total - 6) + ",\"total_tokens\":" + total + "}";
    String model = URLEncoder.encode(String.valueOf(body.model), StandardCharsets.UTF_8);
    String served = kind + ";" + model + ";" + total + ";" + (body.stream ? 1 : 0) + ";" + (reported ? 1 : 0);
    exchange.getResponseHeaders().set("x-served", served);
    if (!body.stream) {
      String choice = "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"la la\"},\"text\":\"la la\"}";
      send(exchange, 200, "application/json", "{\"choices\":[" + choice + "],\"usage\":" + usage + "}");
      return;
    }
    String text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"la\"}}]}\n\n".repeat(2);
    if (reported) text += "data: {\"choices\":[],\"usage\":" + usage + "}\n\n";
    send(exchange, 200, "text/event-stream", text + "data: [DONE]\n\n");
  }

  static String kindOf(HttpExchange exchange, String target) {
    if (!exchange.getRequestMethod().equals("POST")) return "models";
    if (target.endsWith("/v1/chat/completions")) return "chat";
    return target.endsWith("/v1/completions") ? "completions" : "models";
  }

  static void handle(HttpExchange exchange, ObjectMapper mapper, String kind) throws IOException {
    try {
      if (kind.equals("models")) {
        send(exchange, 200, "application/json", "{\"object\":\"list\",\"data\":[{\"id\":\"sim\"}]}");
      } else {
        answer(exchange, mapper, kind);
      }
    } catch (IOException | RuntimeException error) {
      send(exchange, 400, "text/plain", error.toString());
    } finally {
      exchange.close();
    }
  }

  static HttpServer server() throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setExecutor(Executors.newFixedThreadPool(4));
    return server;
  }

  public static void main(String[] arguments) throws IOException {
    ObjectMapper plain = new ObjectMapper();
    JsonMapper.Builder builder = JsonMapper.builder().enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES);
    for (JsonReadFeature feature : JsonReadFeature.values()) builder.enable(feature);
    ObjectMapper lenient = builder.build();

    HttpServer router = server();
    router.createContext("/v1/chat/completions", exchange ->
        handle(exchange, plain, kindOf(exchange, "/v1/chat/completions")));
    router.createContext("/v1/completions", exchange ->
        handle(exchange, plain, kindOf(exchange, "/v1/completions")));
    router.createContext("/v1/models", exchange -> handle(exchange, plain, "models"));
    router.start();

    HttpServer suffix = server();
    suffix.createContext("/", exchange -> {
      String kind = kindOf(exchange, exchange.getRequestURI().toString());
      if (kind.equals("models")) kind = kindOf(exchange, exchange.getRequestURI().getPath());
      handle(exchange, lenient, kind);
    });
    suffix.start();
    System.out.println(
        "{\"router\":" + router.getAddress().getPort() + ",\"suffix\":" + suffix.getAddress().getPort() + "}");
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
