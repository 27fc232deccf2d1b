//! Secrets that are known by where they stand, and of which a public part stays.

use super::{check, pick, random_text, redact, stays};

#[test]
fn connection_strings_and_signed_addresses_of_azure_lose_their_keys() {
    let key = format!("{}==", random_text(86, 1));
    let text = format!("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={key};EndpointSuffix=x\n");
    let expected =
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=[redacted:azure];EndpointSuffix=x\n";
    check(&text, &[], expected);
    let shared = format!("SharedAccessKeyName=Root;SharedAccessKey={}=\n", random_text(43, 2));
    check(&shared, &[], "SharedAccessKeyName=Root;SharedAccessKey=[redacted:azure]\n");
    let signed =
        format!("https://a.blob.core.windows.net/c?sv=2022-11-02&sig={}%3D&se=1\n", random_text(43, 3));
    check(&signed, &[], "https://a.blob.core.windows.net/c?sv=2022-11-02&sig=[redacted:azure]&se=1\n");
    let secret = format!("Q~{}", pick(b"abcXYZ019_~.-", 34, 108));
    for place in ["AZURE_ID=abc8@\n", "{\"value\":\"abc8@\"}\n", "abc8@"] {
        check(&place.replace('@', &secret), &[], &place.replace('@', "[redacted:azure]"));
    }
    stays("storage.AccountKey=short\n");
    stays("fn check(&sig=short)\n");
    stays("the Q~ of abc8Q~tooshort\n");
}

#[test]
fn of_a_bots_token_the_public_number_stays() {
    let secret = format!("AA{}", random_text(33, 4));
    check(
        &format!("https://api.telegram.org/bot123456789:{secret}/getMe\n"),
        &[],
        "https://api.telegram.org/bot123456789:[redacted:telegram]/getMe\n",
    );
    stays(&format!("12:{secret}\n"));
    stays("aa:aa:bb:aa:cc at 123456:AA\n");
}

#[test]
fn of_a_discord_token_the_users_number_stays_and_a_hook_loses_its_path() {
    // Of 198622483471925248.
    let user = ["MTk4NjIyNDgz", "NDcxOTI1MjQ4"].concat();
    let secret = format!("{}.{}", random_text(6, 5), random_text(38, 6));
    check(&format!("bot {user}.{secret} is up\n"), &[], &format!("bot {user}.[redacted:discord] is up\n"));
    stays(&format!("org.example.{}.{secret}\n", "MyVeryLongClassNameOfJava"));
    let hook = random_text(68, 7);
    for host in ["discord.com/api", "discordapp.com/api", "discord.com/api/v10"] {
        check(
            &format!("post https://{host}/webhooks/123456789012345678/{hook}\n"),
            &[],
            &format!("post https://{host}/webhooks/123456789012345678/[redacted:discord]\n"),
        );
    }
    stays("see https://discord.com/api/docs and https://discord.com/developers\n");
}

#[test]
fn a_key_of_putty_loses_its_private_lines() {
    for newline in ["\n", "\r\n", "\\n"] {
        let lines = [random_text(64, 8), random_text(64, 9), random_text(20, 10)].join(newline);
        let mac = pick(b"0123456789abcdef", 40, 11);
        let text = format!(
            "PuTTY-User-Key-File-2: ssh-rsa{newline}Private-Lines: 3{newline}{lines}{newline}Private-MAC: {mac}{newline}end\n"
        );
        let expected = format!(
            "PuTTY-User-Key-File-2: ssh-rsa{newline}Private-Lines: 3{newline}[redacted:private-key]{newline}end\n"
        );
        check(&text, &[], &expected);
    }
    stays("Private-Lines: the lines behind it\n");
}

#[test]
fn passwords_in_command_lines_are_removed_whatever_they_look_like() {
    for (line, password) in [
        ("$ curl -u bob:@ https://example.com\n", "hunter2"),
        ("curl -sS -u 'bob:@' https://example.com\n", "a"),
        ("curl --user bob:@ x\n", "hunter2"),
        ("curl --user=\"bob:@\" x\n", "p:w"),
        ("curl -fsSu bob:@ x\n", "hunter2"),
        ("curl -ubob:@ x\n", "hunter2"),
        ("curl https://example.com \\\n  -u bob:@\n", "hunter2"),
        ("{\"cmd\":\"curl -u bob:@\\n\"}\n", "hunter2"),
        ("mysql -u root -p@ shop\n", "secret"),
        ("/usr/bin/mysqldump -uroot -p'@' shop | gzip\n", "it is"),
        ("mariadb --user=root --password=@ shop\n", "secret"),
        ("sh -c \"mysql -p@\"\n", "secret"),
    ] {
        // A quoted one ends at its first blank: what is behind it is left.
        let shown = password.split(' ').next().unwrap();
        let with = |value: &str| line.replace('@', value);
        let expected = with(&password.replacen(shown, "[redacted:command-password]", 1));
        check(&with(password), &[], &expected);
    }
    for line in [
        "curl -u $USER:$PASSWORD https://example.com\n",
        "curl -u bob https://example.com:8080/\n",
        "curl -v https://example.com && docker run -u 1000:1000 x\n",
        "curl: (6) could not resolve host\n",
        "libcurl -u is not a command\n",
        "mysql -u root -p shop\n",
        "mysql -P3306 -h db\n",
        "pip install mysql-client\nmkdir -pv x\n",
        "mysql --help; mkdir -pv x\n",
    ] {
        stays(line);
    }
}

#[test]
fn netrc_files_lose_their_passwords() {
    check(
        "machine api.example.com login bob password hunter2\nmachine b.org\n  login ann\n  password x y\n",
        &[],
        "machine api.example.com login bob password [redacted:netrc]\nmachine b.org\n  login ann\n  password [redacted:netrc] y\n",
    );
    check(
        "default login anonymous password me@home\n",
        &[],
        "default login anonymous password [redacted:netrc]\n",
    );
    stays("the login form asks for a password again\n");
    stays("machine learning needs no login, no password\n");
}

#[test]
fn cookies_lose_their_values() {
    let value = random_text(26, 12);
    for (line, expected) in [
        ("Cookie: session=@; theme=dark\n", "Cookie: session=[redacted:cookie]\n"),
        ("> cookie: sid=@\r\n", "> cookie: sid=[redacted:cookie]\r\n"),
        ("Set-Cookie: sid=@; Path=/; HttpOnly\n", "Set-Cookie: sid=[redacted:cookie]; Path=/; HttpOnly\n"),
        ("curl -H 'Cookie: sid=@' x\n", "curl -H 'Cookie: sid=[redacted:cookie]' x\n"),
        ("{\"set-cookie\": \"sid=@; Path=/\"}\n", "{\"set-cookie\": \"sid=[redacted:cookie]; Path=/\"}\n"),
        ("curl --cookie \"sid=@\" x\n", "curl --cookie \"sid=[redacted:cookie]\" x\n"),
    ] {
        check(&line.replace('@', &value), &[], expected);
    }
    stays("cookie: none was set\n");
    stays("let cookie = parse(header);\n");
    stays("Cookie: consent=yes\n");
}

#[test]
fn what_was_removed_by_its_place_stays_removed() {
    let text = format!(
        "curl -u a:b1 x\nmysql -psecret\nmachine h login a password b\nCookie: s={}\nbot123456:AA{}\n",
        random_text(20, 13),
        random_text(33, 14)
    );
    let once = redact(&text, &[]);
    assert_eq!(redact(&once, &[]), once);
    assert_eq!(once.matches("[redacted:").count(), 5, "{once}");
}
