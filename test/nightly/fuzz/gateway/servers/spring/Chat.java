import com.fasterxml.jackson.annotation.JsonAlias;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.tomcat.util.buf.EncodedSolidusHandling;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.embedded.tomcat.TomcatServletWebServerFactory;
import org.springframework.boot.web.server.WebServerFactoryCustomizer;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.Profile;
import org.springframework.http.HttpHeaders;
import org.springframework.http.ResponseEntity;
import org.springframework.util.AntPathMatcher;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.ModelAttribute;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.ForwardedHeaderFilter;
import org.springframework.web.filter.HiddenHttpMethodFilter;
import org.springframework.web.servlet.config.annotation.PathMatchConfigurer;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;

/**
 * Two chat servers on Spring Boot: one as it comes, and one with what older releases did and applications still
 * switch on: paths in any case, with a slash or a suffix after them and escaped slashes in them, methods in parameters,
 * forwarded headers, fields in parameters, and Jackson's lenient features. Prints {"router": port, "lenient": port}
 * and serves until its input is closed.
 */
public class Chat {
  static final String LENIENT = "lenient";
  static final AtomicInteger count = new AtomicInteger();

  @JsonIgnoreProperties(ignoreUnknown = true)
  public record Options(@JsonAlias("includeUsage") Boolean include_usage) {}

  @JsonIgnoreProperties(ignoreUnknown = true)
  public record Body(String model, Boolean stream, @JsonAlias("streamOptions") Options stream_options) {}

  static ResponseEntity<String> send(String type, String text, String served) {
    HttpHeaders headers = new HttpHeaders();
    headers.set("content-type", type);
    if (served != null) headers.set("x-served", served);
    return ResponseEntity.ok().headers(headers).body(text);
  }

  static ResponseEntity<String> answer(String kind, Body body) {
    boolean stream = Boolean.TRUE.equals(body.stream());
    Options options = body.stream_options();
    boolean reported = !stream || options != null && Boolean.TRUE.equals(options.include_usage());
    int total = 10 + count.incrementAndGet() % 90;
    String usage = "{\"prompt_tokens\":6,\"completion_tokens\":" + (total - 6) + ",\"total_tokens\":" + total + "}";
    String model = URLEncoder.encode(String.valueOf(body.model()), StandardCharsets.UTF_8);
    String served = kind + ";" + model + ";" + total + ";" + (stream ? 1 : 0) + ";" + (reported ? 1 : 0);
    if (!stream) {
      String choice = "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"la la\"},\"text\":\"la la\"}";
      return send("application/json", "{\"choices\":[" + choice + "],\"usage\":" + usage + "}", served);
    }
    String text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"la\"}}]}\n\n".repeat(2);
    if (reported) text += "data: {\"choices\":[],\"usage\":" + usage + "}\n\n";
    return send("text/event-stream", text + "data: [DONE]\n\n", served);
  }

  @RestController
  public static class Api {
    @PostMapping("/v1/chat/completions")
    ResponseEntity<String> chat(@RequestBody Body body) {
      return answer("chat", body);
    }

    @PostMapping("/v1/completions")
    ResponseEntity<String> completions(@RequestBody Body body) {
      return answer("completions", body);
    }

    @GetMapping("/v1/models")
    ResponseEntity<String> models() {
      return send("application/json", "{\"object\":\"list\",\"data\":[{\"id\":\"sim\"}]}", null);
    }

    @ExceptionHandler
    ResponseEntity<String> refuse(Exception error) {
      return ResponseEntity.badRequest().body(error.getClass().getSimpleName());
    }
  }

  /** Without @RequestBody, Spring takes fields from the query and from forms. */
  @RestController
  @Profile(LENIENT)
  public static class Forms {
    @PostMapping("/v1/audio/transcriptions")
    ResponseEntity<String> form(@ModelAttribute Body body) {
      return answer("audio/transcriptions", body);
    }
  }

  @Profile(LENIENT)
  @SpringBootConfiguration(proxyBeanMethods = false)
  public static class Lenience implements WebMvcConfigurer {
    @Bean
    ObjectMapper mapper() {
      JsonMapper.Builder builder = JsonMapper.builder().enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_PROPERTIES);
      for (JsonReadFeature feature : JsonReadFeature.values()) builder.enable(feature);
      return builder.build();
    }

    @Bean
    ForwardedHeaderFilter forwarded() {
      return new ForwardedHeaderFilter();
    }

    @Bean
    HiddenHttpMethodFilter methods() {
      return new HiddenHttpMethodFilter();
    }

    @Bean
    WebServerFactoryCustomizer<TomcatServletWebServerFactory> slashes() {
      return factory -> factory.addConnectorCustomizers(connector -> {
        connector.setEncodedSolidusHandling(EncodedSolidusHandling.DECODE.getValue());
        connector.setAllowBackslash(true);
        connector.setProperty("relaxedPathChars", "\"<>[\\]^`{|}");
        connector.setProperty("relaxedQueryChars", "\"<>[\\]^`{|}");
      });
    }

    @Override
    @SuppressWarnings("deprecation")
    public void configurePathMatch(PathMatchConfigurer configurer) {
      AntPathMatcher matcher = new AntPathMatcher();
      matcher.setCaseSensitive(false);
      matcher.setTrimTokens(true);
      configurer.setPathMatcher(matcher).setUseTrailingSlashMatch(true).setUseSuffixPatternMatch(true);
    }
  }

  @SpringBootConfiguration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  @Import({Api.class, Forms.class, Lenience.class})
  public static class App {}

  static int start(String... profiles) {
    SpringApplication app = new SpringApplication(App.class);
    app.setAdditionalProfiles(profiles);
    app.setDefaultProperties(Map.of(
        "server.address", "127.0.0.1", "server.port", "0", "server.tomcat.threads.max", "4",
        "spring.main.banner-mode", "off", "logging.level.root", "off", "server.tomcat.max-http-form-post-size", "64MB"));
    return ((ServletWebServerApplicationContext) app.run()).getWebServer().getPort();
  }

  public static void main(String[] arguments) throws Exception {
    int router = start();
    System.out.println("{\"router\":" + router + ",\"lenient\":" + start(LENIENT) + "}");
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
