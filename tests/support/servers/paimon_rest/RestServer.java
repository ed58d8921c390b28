import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.options.Options;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.RESTFileSystemCatalog;
import org.apache.paimon.rest.RESTToken;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Paimon's own test server of the REST catalog, behind a pipe as PaimonServer is.
 *
 * <p>Driven by tests/support/servers/rest_server.py. Each request "start" opens one more server, for a
 * warehouse of its own.
 */
public final class RestServer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, RESTCatalogServer> SERVERS = new LinkedHashMap<>();

    private RestServer() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not end up among the answers
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println(JSON.createObjectNode().put("ready", true));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer;
            try {
                answer = serve(JSON.readTree(line));
            } catch (Throwable error) {
                answer = JSON.createObjectNode().put("error", error.toString());
            }
            answers.println(answer);
        }
        System.exit(0); // the servers' threads would live on
    }

    private static ObjectNode serve(JsonNode request) throws Exception {
        String folder = request.get("folder").asText();
        switch (request.get("command").asText()) {
            case "start":
                return start(request, folder);
            case "forbid":
                String table = request.get("table").asText();
                SERVERS.get(folder)
                        .addNoPermissionTable(
                                Identifier.create(request.get("database").asText(), table));
                return JSON.createObjectNode();
            case "give":
                JsonNode given = request.get("identifier");
                SERVERS.get(folder)
                        .setDataToken(
                                Identifier.create(
                                        given.get(0).asText(), given.get(1).asText()),
                                new RESTToken(
                                        texts(request, "token"), request.get("until").asLong()));
                return JSON.createObjectNode();
            default:
                throw new IllegalArgumentException("unknown command " + request);
        }
    }

    private static ObjectNode start(JsonNode request, String folder) throws Exception {
        RESTCatalogServer server =
                new RESTCatalogServer(
                        folder,
                        new BearTokenAuthProvider(request.get("token").asText()),
                        new ConfigResponse(texts(request, "defaults"), texts(request, "overrides")),
                        request.get("warehouse").asText());
        if (request.hasNonNull("location")) {
            keepTables(server, request.get("location").asText(), texts(request, "store"));
        }
        server.start();
        SERVERS.put(folder, server);
        return JSON.createObjectNode().put("uri", server.getUrl());
    }

    /** Let the server keep its tables in another store; by itself it knows the local disk alone. */
    private static void keepTables(
            RESTCatalogServer server, String location, Map<String, String> store)
            throws Exception {
        CatalogContext context = CatalogContext.create(Options.fromMap(store));
        Path path = new Path(location);
        Field catalog = RESTCatalogServer.class.getDeclaredField("catalog");
        catalog.setAccessible(true);
        catalog.set(server, new RESTFileSystemCatalog(FileIO.get(path, context), path, context));
    }

    private static Map<String, String> texts(JsonNode request, String key) {
        Map<String, String> texts = new LinkedHashMap<>();
        request.get(key).fields().forEachRemaining(e -> texts.put(e.getKey(), e.getValue().asText()));
        return texts;
    }
}
