import java.net.URI;
import org.apache.cassandra.config.YamlConfigurationLoader;

/** Reads each file as Cassandra does at its start: unknown names and wrong kinds of values end it. */
public class ReadCassandraYaml {
  public static void main(String[] files) throws Exception {
    for (String file : files) {
      try {
        new YamlConfigurationLoader().loadConfig(URI.create("file://" + file).toURL());
      } catch (Exception fault) {
        System.err.println(file + ": " + fault.getMessage());
        System.exit(1);
      }
    }
  }
}
