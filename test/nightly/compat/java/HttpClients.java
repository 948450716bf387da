import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Makes the usual calls with Java's own HTTP client, which asks to upgrade to h2c, and prints a JSON object with "ok"
 * or what is wrong for each. BASE_URL, KEY, WRONG_KEY and SPENT_KEY are in the environment, as for the other clients.
 */
public class HttpClients {
  static final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();
  static final Map<String, String> found = new LinkedHashMap<>();

  static HttpResponse<String> send(String path, String key, String body) throws Exception {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(System.getenv("BASE_URL") + path))
            .header("authorization", "Bearer " + System.getenv(key))
            .header("content-type", "application/json");
    if (body != null) request.POST(HttpRequest.BodyPublishers.ofString(body));
    return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
  }

  static void check(String name, String path, String key, String body, int status, String text) {
    String result = "ok";
    try {
      HttpResponse<String> answer = send(path, key, body);
      if (answer.statusCode() != status || !answer.body().contains(text)) {
        result = answer.statusCode() + ": " + answer.body();
      }
    } catch (Exception error) {
      result = error.toString();
    }
    found.put(name, result);
  }

  static String chatOf(String model, boolean isStream) {
    return "{\"model\":\"" + model + "\",\"stream\":" + isStream
        + ",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":100}";
  }

  static String quoted(String text) {
    String escaped = text.replace("\\", "\\\\").replace("\"", "\\\"");
    return "\"" + escaped.replaceAll("\\p{Cntrl}", " ") + "\"";
  }

  public static void main(String[] arguments) {
    String chat = "/v1/chat/completions";
    // The first call upgrades if the server agrees; the second uses the connection again.
    check("chat", chat, "KEY", chatOf("sim", false), 200, "\"total_tokens\"");
    check("chat again", chat, "KEY", chatOf("sim", false), 200, "\"total_tokens\"");
    check("chat, streamed", chat, "KEY", chatOf("sim", true), 200, "data: [DONE]");
    check("messages", "/v1/messages", "KEY", chatOf("sim", false), 200, "\"output_tokens\"");
    check("models", "/v1/models", "KEY", null, 200, "\"data\"");
    check("wrong key", chat, "WRONG_KEY", chatOf("sim", false), 401, "\"message\"");
    check("closed model", chat, "KEY", chatOf("closed", false), 403, "\"message\"");
    check("used-up limit", chat, "SPENT_KEY", chatOf("sim", false), 429, "\"message\"");
    System.out.println(
        found.entrySet().stream()
            .map((each) -> quoted(each.getKey()) + ":" + quoted(each.getValue()))
            .collect(Collectors.joining(",", "{", "}")));
  }
}
